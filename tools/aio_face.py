"""Write pykafka/aio/: async facades of clients, producers and consumers, from the signatures of the blocking classes.

    python tools/aio_face.py

A method becomes a coroutine, unless FACADES says otherwise; one that makes something that has to be closed returns an
`Opening`; properties return what the blocking ones return. If the coroutine takes and returns the same as the method, one
line makes it (`coroutine`). pykafka/aio/base.py has the parts written by hand. A test fails when the files are out of date.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "pykafka" / "aio"
#: Parameters without a meaning here: the handler is the running loop's.
DROPPED = {"use_greenlets", "handler", "ignore_rdkafka", "use_rdkafka"}
#: Parameters that take a function, which may be a coroutine function here.
CALLBACKS = {"on_delivery", "on_commit", "listener", "handle", "on_abandoned", "on_acknowledge"}


@dataclass(frozen=True)
class Facade:
    """How coroutines see one blocking class.

    :param module: of the blocking class
    :param name: of the class, here and there
    :param base: the class of pykafka/aio/base.py that has the parts written by hand
    :param plain: methods that never wait
    :param opens: methods that make something that has to be closed: the class of its facade
    :param wraps: properties whose value gets a facade: its class
    :param own: what the base has
    :param left: public members without a facade
    """

    module: str
    name: str
    base: str
    plain: frozenset[str] = frozenset()
    opens: dict[str, str] = field(default_factory=dict)
    wraps: dict[str, str] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()


_CONSUMER = {
    "base": "Messages",
    "own": frozenset({"consume"}),
    "left": frozenset({"topic", "fetch", "cleanup", "generation_id", "consumer_id"}),
}
FACADES: dict[str, list[Facade]] = {
    "client": [
        Facade(
            "pykafka.client",
            "KafkaClient",
            "Client",
            plain=frozenset(
                {
                    *("metrics", "record_flight", "record_flight_at", "register_metric", "unregister_metric"),
                    "set_credentials",
                }
            ),
            opens={"consumer": "KafkaConsumer", "producer": "KafkaProducer", "share_consumer": "ShareConsumer"},
            wraps={"admin": "Admin", "topics": "Topics"},
            own=frozenset({"close", "from_config", "from_env"}),
            left=frozenset({"cluster"}),
        ),
    ],
    "compat": [
        Facade(
            "pykafka.topic",
            "Topic",
            "AsyncFacade",
            opens={
                "get_producer": "Producer",
                "get_sync_producer": "Producer",
                "get_simple_consumer": "SimpleConsumer",
                "get_balanced_consumer": "GroupConsumer",
            },
            left=frozenset({"update", "unlink"}),
        ),
        Facade("pykafka.compat.producer", "Producer", "Produces", own=frozenset({"produce"})),
        Facade("pykafka.simpleconsumer", "SimpleConsumer", **_CONSUMER),  # type: ignore[arg-type]
        Facade("pykafka.compat.group_consumer", "GroupConsumer", **_CONSUMER),  # type: ignore[arg-type]
    ],
    "admin": [Facade("pykafka.admin.admin", "Admin", "AsyncFacade")],
    "producer": [
        Facade(
            "pykafka.kafkaproducer",
            "KafkaProducer",
            "Sends",
            plain=frozenset({"room", "metrics"}),
            own=frozenset({"produce", "transaction", "init_transactions", "send_offsets"}),
            left=frozenset({"stop", "make"}),
        ),
    ],
    "shares": [
        Facade(
            "pykafka.sharegroups.consumer",
            "ShareConsumer",
            "Acquires",
            plain=frozenset({"metrics"}),
            left=frozenset({"make"}),
        ),
    ],
    "consumer": [
        Facade(
            "pykafka.parallel.run",
            "ParallelRun",
            "Closing",
            left=frozenset({"revoke", "lose", "polls_here", "add_metrics"}),
        ),
        Facade(
            "pykafka.kafkaconsumer",
            "KafkaConsumer",
            "Records",
            plain=frozenset({"metrics"}),
            opens={"parallel": "ParallelRun"},
            own=frozenset({"batches", "one"}),
            left=frozenset({"make"}),
        ),
    ],
}
#: The modules of facades.
HOMES = {facade.name: f"pykafka.aio.{module}" for module, facades in FACADES.items() for facade in facades} | {
    "Topics": "pykafka.aio.topics"
}


class Names:
    """The names that signatures use, and the imports that they need."""

    def __init__(self) -> None:
        self.typing: set[tuple[str, str, str]] = set()
        self.needed: set[tuple[str, str, str]] = set()

    def use(self, module: str, nodes: Iterable[ast.AST], at_run_time: bool = False) -> None:
        """Import what some expressions of a module name."""
        for name in sorted({one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)}):
            if hasattr(builtins, name):
                continue
            (self.needed if at_run_time else self.typing).add(_origin(module, name))

    def lines(self) -> list[str]:
        """Return the import statements."""
        lines = [_import(one) for one in sorted(self.needed)]
        here = {alias for _, _, alias in self.needed}  # a base may call its own type variables the same
        typing = [_import(one) for one in sorted(self.typing) if one[2] not in here]
        return [*lines, "if TYPE_CHECKING:", *(f"    {line}" for line in typing)] if typing else lines


def _import(origin: tuple[str, str, str]) -> str:
    module, name, alias = origin
    if not name:
        return f"import {module} as {alias}" if alias != module else f"import {module}"
    return f"from {module} import {name}" + (f" as {alias}" if alias != name else "")


def _origin(module: str, name: str) -> tuple[str, str, str]:
    """Return where a name of a module comes from: module, name there, name here."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom):
            for one in node.names:
                if (one.asname or one.name) == name:
                    return str(node.module), one.name, name
        elif isinstance(node, ast.Import):
            for one in node.names:
                if (one.asname or one.name) == name:
                    return one.name, "", name
    return module, name, name


_trees: dict[str, ast.Module] = {}


def _tree(module: str) -> ast.Module:
    if module not in _trees:
        source = inspect.getsource(importlib.import_module(module))
        _trees[module] = ast.parse(source)
    return _trees[module]


Function = ast.FunctionDef


def _functions(cls: type[Any], name: str) -> tuple[str, list[Function]]:
    """Return the module that defines a member, and its definition; before it its overloads."""
    owner = next(one for one in cls.__mro__ if name in vars(one))
    member = vars(owner)[name]
    # Not that of the class, which may be the documented one.
    module = (member.fget if isinstance(member, property) else member).__module__
    (body,) = (
        node.body for node in _tree(module).body if isinstance(node, ast.ClassDef) and node.name == owner.__name__
    )
    return module, [node for node in body if isinstance(node, ast.FunctionDef) and node.name == name]


def members(cls: type[Any]) -> list[str]:
    """Return the public members of a class, in the order of their definition, those of its bases last."""
    names = [name for one in cls.__mro__ if one is not object for name in vars(one) if not name.startswith("_")]
    return [name for name in dict.fromkeys(names) if callable(getattr(cls, name, None)) or _is_property(cls, name)]


def _is_property(cls: type[Any], name: str) -> bool:
    return isinstance(inspect.getattr_static(cls, name, None), property)


def _keep(arguments: ast.arguments) -> None:
    """Take out the parameters that mean nothing here."""
    positional = arguments.args
    first_default = len(positional) - len(arguments.defaults)
    defaults = {
        one.arg: arguments.defaults[at - first_default] for at, one in enumerate(positional) if at >= first_default
    }
    arguments.args = [one for one in positional if one.arg not in DROPPED]
    arguments.defaults = [defaults[one.arg] for one in arguments.args if one.arg in defaults]
    kept = [
        pair for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if pair[0].arg not in DROPPED
    ]
    arguments.kwonlyargs, arguments.kw_defaults = [one for one, _ in kept], [default for _, default in kept]


def _passed(arguments: ast.arguments, by_name: bool) -> str:
    """Return the arguments of the call of the blocking method.

    :param by_name: whether parameters that can be passed by position are passed by name: `_keep` may have left some out
    """

    def value(name: str) -> str:
        return f"sync({name})" if name in CALLBACKS else name

    passed = [f"{one.arg}={value(one.arg)}" if by_name else value(one.arg) for one in arguments.args[1:]]
    if arguments.vararg is not None:
        passed.append(f"*{arguments.vararg.arg}")
    passed += [f"{one.arg}={value(one.arg)}" for one in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        passed.append(f"**sync_all({arguments.kwarg.arg})")
    return ", ".join(passed)


def _summary(node: Function) -> str:
    text = ast.get_docstring(node) or ""
    return text.split("\n\n")[0].replace("\n", " ")


class Writer:
    """The source of one facade.

    :param facade: what to write
    :param names: collects the imports
    """

    def __init__(self, facade: Facade, names: Names) -> None:
        self.facade = facade
        self.names = names
        self.cls: type[Any] = getattr(importlib.import_module(facade.module), facade.name)

    def write(self) -> list[str]:
        """Return the lines of the class."""
        facade = self.facade
        self.names.needed.add(("pykafka.aio.base", facade.base, facade.base))
        of = f"_{facade.name}"
        parameters = [one.__name__ for one in getattr(self.cls, "__parameters__", ())]
        if parameters:
            of = ", ".join(parameters)
            self.names.needed |= {_origin(facade.module, one) for one in parameters}
        else:
            self.names.needed.add((facade.module, facade.name, of))
        doc = (inspect.getdoc(self.cls) or "").split("\n\n")[0].replace("\n", " ")
        link = f"As `{facade.module}.{facade.name}`, which documents parameters and errors."
        lines = [f"class {facade.name}({facade.base}[{of}]):", f'    """{doc}', "", f"    {link}", '    """', ""]
        if facade.base == "Client":
            lines += self._constructor()
        for name in members(self.cls):
            if name not in facade.own | facade.left:
                lines += self._property(name) if _is_property(self.cls, name) else self._method(name)
        return lines

    def _constructor(self) -> list[str]:
        module, (node,) = _functions(self.cls, "__init__")
        _keep(node.args)
        self._import_of(module, node)
        self.names.needed.add((self.facade.module, self.facade.name, f"_{self.facade.name}"))
        passed = _passed(node.args, by_name=True)
        return [
            f"    def __init__({ast.unparse(node.args)}) -> None:",
            f"        super().__init__(lambda handler: _{self.facade.name}({passed}, handler=handler))",
            "",
        ]

    def _import_of(self, module: str, node: Function) -> None:
        arguments = node.args
        everything = [*arguments.args, *arguments.kwonlyargs, arguments.kwarg, arguments.vararg]
        annotations = [one.annotation for one in everything if one is not None and one.annotation is not None]
        self.names.use(module, [*annotations, *([node.returns] if node.returns is not None else [])])
        self.names.use(module, [one for one in [*arguments.defaults, *arguments.kw_defaults] if one is not None], True)

    def _property(self, name: str) -> list[str]:
        module, (node, *_) = _functions(self.cls, name)
        made = self.facade.wraps.get(name)
        if made is None:
            self._import_of(module, node)
            returns, value = ast.unparse(node.returns) if node.returns is not None else "Any", f"self._inner.{name}"
        else:
            self.names.needed.add((HOMES[made], made, made))
            returns, value = made, f"{made}(self._here.{name})"
        return [
            "    @property",
            f"    def {name}(self) -> {returns}:",
            f'        """{_summary(node)}"""',
            f"        return {value}",
            "",
        ]

    def _method(self, name: str) -> list[str]:
        module, nodes = _functions(self.cls, name)
        *overloads, node = nodes
        opened = self.facade.opens.get(name)
        if self._is_plain_coroutine(name, nodes):
            self.names.needed |= {
                ("pykafka.aio.base", "coroutine", "coroutine"),
                (self.facade.module, self.facade.name, f"_{self.facade.name}"),
            }
            return [f"    {name} = coroutine(_{self.facade.name}.{name})"]
        lines: list[str] = []
        for one in nodes:
            _keep(one.args)
            if opened is not None:
                one.returns = _opening(one.returns, opened)
        if opened is not None:
            self.names.needed |= {(HOMES[opened], opened, opened), ("pykafka.aio.base", "Opening", "Opening")}
        how = "" if opened is not None or name in self.facade.plain else "async "
        for one in overloads:
            self._use(module, one, opened)
            self.names.needed.add(("typing", "overload", "overload"))
            lines += [
                "    @overload",
                f"    {how}def {name}({ast.unparse(one.args)}) -> {ast.unparse(_returns(one))}: ...",
            ]
        self._use(module, node, opened)
        lines += [
            f"    {how}def {name}({ast.unparse(node.args)}) -> {ast.unparse(_returns(node))}:",
            f'        """{_summary(node)}"""',
            *(f"        {line}" for line in self._body(name, opened, node)),
            "",
        ]
        return lines

    def _is_plain_coroutine(self, name: str, nodes: list[Function]) -> bool:
        """Return whether the coroutine has the parameters and the result of the method, which name no type variable."""
        (node, *overloads) = nodes
        names = {one.arg for one in [*node.args.args, *node.args.kwonlyargs]}
        variables = {"Self", *(one.__name__ for one in getattr(self.cls, "__parameters__", ()))}
        signature = [node.args, *([node.returns] if node.returns is not None else [])]
        used = {one.id for part in signature for one in ast.walk(part) if isinstance(one, ast.Name)}
        return not (
            overloads
            or name in self.facade.plain
            or name in self.facade.opens
            or node.args.kwarg is not None
            or names & (CALLBACKS | DROPPED)
            or used & variables
        )

    def _use(self, module: str, node: Function, opened: str | None) -> None:
        returns = node.returns
        if opened is not None and isinstance(returns, ast.Subscript) and isinstance(returns.slice, ast.Subscript):
            node.returns = returns.slice.slice  # the parameters alone: the class is the facade
        elif opened is not None:
            node.returns = None
        self._import_of(module, node)
        node.returns = returns
        for helper in ("sync_all",) if node.args.kwarg is not None else ():
            self.names.needed.add(("pykafka.aio.base", helper, helper))
        if any(one.arg in CALLBACKS for one in [*node.args.args, *node.args.kwonlyargs]):
            self.names.needed.add(("pykafka.aio.base", "sync", "sync"))

    def _body(self, name: str, opened: str | None, node: Function) -> list[str]:
        if opened is not None:
            return [f"return Opening(lambda: {opened}(self._here.{name}({_passed(node.args, by_name=True)})))"]
        passed = _passed(node.args, by_name=False)
        if name in self.facade.plain:
            return [f"return self._inner.{name}({passed})"]
        self.names.needed.add(("pykafka.handlers.bridge", "bridged", "bridged"))
        waiting = f"await bridged(self._here.{name}{passed and ', ' + passed})"
        if ast.unparse(_returns(node)) == "Self":
            return [waiting, "return self"]
        return [f"return {waiting}"]


def _opening(returns: ast.expr | None, opened: str) -> ast.expr:
    """Return the annotation of what opens a facade, with the parameters of the blocking class."""
    made = f"{opened}[{ast.unparse(returns.slice)}]" if isinstance(returns, ast.Subscript) else opened
    return ast.parse(f"Opening[{made}]", mode="eval").body


def _returns(node: Function) -> ast.expr:
    return node.returns if node.returns is not None else ast.parse("None", mode="eval").body


def source(module: str) -> str:
    """Return the source of one module of pykafka/aio, formatted."""
    names = Names()
    body: list[str] = []
    for facade in FACADES[module]:
        body += ["", "", *Writer(facade, names).write()]
    own = {name for name, home in HOMES.items() if home == f"pykafka.aio.{module}"}
    names.needed = {one for one in names.needed if one[0] != f"pykafka.aio.{module}" or one[1] not in own}
    names.needed.add(("typing", "TYPE_CHECKING", "TYPE_CHECKING"))
    what = ", ".join(f"`{facade.name}`" for facade in FACADES[module])
    head = [
        f'"""{what} for coroutines; written by tools/aio_face.py, do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        *names.lines(),
    ]
    return _formatted("\n".join([*head, *body]) + "\n")


def _formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    name = ["--stdin-filename", str(FOLDER / "made.py"), "-"]
    fix = [*ruff, "check", "--quiet", "--fix-only", "--select", "I,F401,TC", *name]
    for command in (fix, [*ruff, "format", "--quiet", *name]):
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def main() -> None:
    """Write all modules."""
    for module in FACADES:
        (FOLDER / f"{module}.py").write_text(source(module))


if __name__ == "__main__":
    main()
