"""`mutants`: the mutants of a module, made by mutmut's mutators and by three of our own.

mutmut changes one expression: a comparison, a number, `and` for `or`, None for a value or an argument, an argument left out.
Ours turn a condition round, leave out a call whose result is not used, and leave out an entry of a table. Decorated functions,
such as properties, have no mutants.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import libcst as cst  # it comes with mutmut, which the extra `mutants` names
from libcst import matchers as m
from mutmut.mutation.file_mutation import MutationVisitor, deep_replace
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

_TEXT = m.SimpleString() | m.ConcatenatedString() | m.FormattedString()
_SPEAKS = _TEXT | m.Call(args=[m.ZeroOrMore(), m.Arg(_TEXT), m.ZeroOrMore()])
#: None is as good as False, and True has a mutant of its own.
_TRUTH = m.Name("True") | m.Name("False") | m.Name("None")
_NEEDLESS = m.Assign(value=_TRUTH) | m.AnnAssign(value=_TRUTH)
#: Conditions that mutmut turns round itself.
_TURNS = m.Equal() | m.NotEqual() | m.Is() | m.IsNot() | m.In() | m.NotIn()
_TURNED = m.Comparison(comparisons=[m.ComparisonTarget(_TURNS)]) | m.UnaryOperation(m.Not())
_LOGS = m.Expr(m.Call(func=m.Attribute(value=m.Name("log"))))
_ONLY_COMPILED = m.If(test=m.Attribute(m.Name("cython"), m.Name("compiled")))


class Mutant(NamedTuple):
    """One mutant.

    :param number: among all mutants of its module
    :param source: of the whole module
    """

    number: int
    line: int
    before: str
    after: str
    source: str


def _turned(node: cst.If) -> Iterator[Any]:
    if not m.matches(node.test, _TURNED):
        inner = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.with_changes(test=cst.UnaryOperation(cst.Not(), inner))


def _without_call(node: cst.Expr) -> Iterator[Any]:
    if m.matches(node.value, m.Call() | m.Await(m.Call())):
        yield cst.Pass()


def _without_entry(node: cst.Dict | cst.Set) -> Iterator[Any]:
    for index in range(len(node.elements) if len(node.elements) > 1 else 0):
        yield node.with_changes(elements=[*node.elements[:index], *node.elements[index + 1 :]])


_OURS = [(cst.If, _turned), (cst.Expr, _without_call), (cst.Dict, _without_entry), (cst.Set, _without_entry)]


def mutants(source: str) -> list[Mutant]:
    """Return the mutants of a module's source, without those of texts, logging, defaults, and code of compiled modules."""
    visitor = MutationVisitor([*mutation_operators, *_OURS], IgnoredCode(set(), set(), set()))
    tree = cst.MetadataWrapper(cst.parse_module(source)).visit(visitor)
    skipped = {id(node) for root in _left_out(tree) for node in m.findall(root, m.MatchIfTrue(lambda _: True))}
    made: dict[str, Mutant] = {}
    for mutation in visitor.mutations:
        node, function = mutation.original_node, mutation.contained_by_top_level_function
        is_table = function is None and isinstance(node, cst.Dict | cst.Set)
        if not (is_table or isinstance(function, cst.FunctionDef)):
            continue
        if id(node) in skipped or m.matches(node, _SPEAKS | _NEEDLESS):
            continue
        code = deep_replace(tree, node, mutation.mutated_node).code
        if code != source and code not in made:
            made[code] = Mutant(len(made), *_first_change(source, code), code)
    return list(made.values())


def _left_out(tree: Any) -> list[Any]:
    compiled = [node.body for node in m.findall(tree, _ONLY_COMPILED)]
    return [*m.findall(tree, m.FormattedString() | _LOGS), *m.findall(tree, m.Param()), *compiled]


def _first_change(source: str, code: str) -> tuple[int, str, str]:
    pairs = enumerate(zip(source.splitlines(), code.splitlines(), strict=False), 1)
    return next((line, old.strip(), new.strip()) for line, (old, new) in pairs if old != new)
