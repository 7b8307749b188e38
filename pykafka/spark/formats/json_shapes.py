"""`Shapes`: which values a JSON Schema admits, by all of its words that decide on a column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

from pykafka.exceptions import SchemaError

#: The types of JSON; "number" is both kinds of numbers.
TYPES = {
    **{name: frozenset([name]) for name in ("string", "integer", "boolean", "array", "object", "null")},
    "number": frozenset(["integer", "fraction"]),
}
EVERY = frozenset[str]().union(*TYPES.values())
#: Formats of strings that are columns of their own.
_FORMATS = frozenset(["date", "date-time"])
#: Kafka Connect's types of whole numbers, which it also writes beside `number`.
_WHOLE = ("int8", "int16", "int32", "int64")
_OF_TYPE = {name: {"type": name} for name in TYPES}
_ONLY_NULL: tuple[Any, ...] = ({"type": "null"}, {"type": ["null"]}, {"const": None}, {"enum": [None]})
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
#: Words that say something about columns.
_WORDS = (
    "type",
    "properties",
    "items",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "enum",
    "const",
    "format",
)
#: So many parts are evaluated: schemas that refer to each other can make endless ones of a short text.
_PARTS_MAX = 50_000


class UnknownPartError(SchemaError):
    """A part contains itself, or refers to a schema that is not there.

    :ivar problem: what is wrong with it, without its path
    """

    problem = ""

    @classmethod
    def at(cls, path: str, problem: str) -> Self:
        """Return the error of a part.

        :param path: to it
        """
        error = cls(f"{path} {problem}")
        error.problem = problem
        return error


class SelfContainedError(UnknownPartError):
    """A part contains itself."""

    @classmethod
    def of(cls, path: str) -> Self:
        """Return the error of a part.

        :param path: to it
        """
        return cls.at(path, "contains itself: Spark has no such type")


class Digits(NamedTuple):
    """A decimal of Kafka Connect, which is a number or the bytes of one in base64, whatever the type says."""

    precision: int
    scale: int


class Node(NamedTuple):
    """A schema, or several that values must match.

    :param word: "part", or how many of the several: "all", "any", "one"
    :param key: equal for nodes that mean the same
    :param nodes: the several ones
    :param schema: of a part
    :param resolver: of the references in it
    """

    word: str
    key: Any
    nodes: tuple[Node, ...] = ()
    schema: Any = True
    resolver: Any = None


def part(schema: Any, resolver: Any) -> Node:
    """Return the node of one schema, which must stay alive."""
    return Node("part", ("part", id(schema)), (), schema, resolver)


ANYTHING = part(True, None)


def every(nodes: Iterable[Node]) -> Node:
    """Return the node of values that are of all nodes."""
    return _joined("all", (node for node in nodes if node.key != ANYTHING.key)) or ANYTHING


def some(nodes: Iterable[Node]) -> Node:
    """Return the node of values that are of one of the nodes."""
    return _joined("any", nodes) or part(False, None)


def exactly_one(nodes: Iterable[Node]) -> Node:
    """Return the node of values that are of one of the nodes, and of no other."""
    return _joined("one", nodes) or part(False, None)


def _joined(word: str, nodes: Iterable[Node]) -> Node | None:
    left = {each.key: each for node in nodes for each in (node.nodes if node.word == word != "one" else (node,))}
    if len(left) < 2:
        return next(iter(left.values()), None)
    return Node(word, (word, frozenset(left)), tuple(left.values()))


class Shape(NamedTuple):
    """The values of a node, or more than those.

    :param kinds: the types of JSON that they have
    :param says_null: whether the schema names null
    :param nullable: whether OpenAPI's word allows null
    :param formats: formats that all of the strings and numbers have
    :param items: the items of all of the arrays; None if they may be anything
    :param some_items: the items of some of the arrays, or anything; None if the schema has none
    :param properties: of all of the objects
    :param variants: properties that the schema has for some of the objects
    :param values: the properties of maps; None if they may be anything
    :param some_values: the properties of some of the maps, or anything; None if the schema has none
    :param closed: whether objects have no other properties
    :param required: names of properties that the schema need not describe
    :param left_out: descriptions of properties that have no names
    :param remarks: words without effect, for the user
    :param chosen: whether it has no properties of its own, but those of others that it combines
    :param parts: identities of the schemas with the inner nodes
    """

    kinds: frozenset[str] = EVERY
    says_null: bool = False
    nullable: bool = False
    formats: frozenset[Any] = frozenset()
    items: Node | None = None
    some_items: Node | None = None
    properties: Mapping[str, Node] = {}
    variants: Mapping[str, Node] = {}
    values: Node | None = None
    some_values: Node | None = None
    closed: bool = False
    required: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    chosen: bool = False
    parts: frozenset[int] = frozenset()

    @property
    def settled(self) -> frozenset[str]:
        """The types; without a word about them those of an object, if there are properties."""
        if self.kinds | TYPES["null"] != EVERY or not self.properties:
            return self.kinds
        return TYPES["object"] | (TYPES["null"] if self.says_null else frozenset())

    @property
    def all_items(self) -> Node:
        """The node of the items of arrays."""
        return _all([self.items, self.some_items]) or ANYTHING

    @property
    def all_values(self) -> Node:
        """The node of the properties of maps."""
        return _all([self.values, self.some_values]) or ANYTHING

    def within(self, name: str) -> Node | None:
        """Return the node of a property; None if the schema has none of that name."""
        nodes = [one[name] for one in (self.properties, self.variants) if name in one]
        return every(nodes) if nodes else None


class Shapes:
    """The shapes of nodes, each evaluated once, without those of inner nodes.

    :param words: the draft, of the package `referencing`
    :param siblings_count: whether words beside `$ref` have a meaning
    """

    def __init__(self, words: Any, siblings_count: bool) -> None:
        self._words = words
        self._siblings_count = siblings_count
        #: Whether types may be schemas, and schemas extend others: in draft 3.
        self._unions = words.name == "draft-03"
        self._shapes: dict[Any, Shape | UnknownPartError] = {}
        self._open: set[Any] = set()
        self._count = 0

    def of(self, node: Node, path: str) -> Shape:
        """Return the shape of a node.

        :param path: to it, for errors
        :raises SchemaError: it is too large
        :raises UnknownPartError: it is itself on the way to it, or refers to nothing
        """
        found = self._shapes.get(node.key)
        if isinstance(found, UnknownPartError):
            raise UnknownPartError.at(path, found.problem)
        if found is not None:
            return found
        if node.key in self._open:
            raise SelfContainedError.of(path)
        self._count += 1
        if self._count > _PARTS_MAX:
            raise SchemaError(f"{path} is one of more than {_PARTS_MAX:,} parts: take a smaller schema")
        self._open.add(node.key)
        try:
            found = self._evaluated(node, path)
        except SelfContainedError:  # it may be reached by another way
            raise
        except UnknownPartError as error:
            self._shapes[node.key] = error
            raise
        finally:
            self._open.discard(node.key)
        self._shapes[node.key] = found
        return found

    def _evaluated(self, node: Node, path: str) -> Shape:
        if node.word == "all":
            return _meet(self.of(one, path) for one in node.nodes)
        if node.word in ("any", "one"):
            return self._of_some(node, path)
        schema = node.schema
        if schema is False:
            return Shape(frozenset())
        if not isinstance(schema, dict):
            return Shape() if schema is True else Shape(remarks=(f"{schema!r} is no schema",))
        resolver = node.resolver.in_subresource(self._words.create_resource(schema))
        return self._of_words(schema, resolver, path)

    def _of_words(self, schema: dict[str, Any], resolver: Any, path: str) -> Shape:
        shapes: list[Shape] = []
        if "$ref" in schema:
            found = followed(schema["$ref"], resolver, path)
            shapes.append(self.of(part(found.contents, found.resolver), path))
            if not self._siblings_count:
                return _meet([*shapes, _ignored(schema)])
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            shapes.append(Shape(remarks=("it has a dynamic reference, which is not followed",)))
        own = self._own(schema, resolver)
        try:
            nodes = _combined(schema, lambda one: part(one, resolver), self._unions)
            combined = [self.of(node, path) for node in nodes]
        except UnknownPartError as error:
            if not own.chosen:
                raise
            return Shape(remarks=(error.problem,))
        return _meet([*shapes, own, *combined])

    def _of_some(self, node: Node, path: str) -> Shape:
        shapes, errors = list[Shape](), list[UnknownPartError]()
        for one in node.nodes:
            try:
                shapes.append(self.of(one, path))
            except UnknownPartError as error:
                errors.append(error)
        if errors and all(shape.kinds <= TYPES["null"] for shape in shapes):
            raise errors[0]
        found = _join([*shapes, *(Shape(remarks=(f"one of its forms {error.problem}",)) for error in errors)])
        if node.word == "one" and sum("null" in one.kinds for one in shapes) > 1:
            # More than one branch takes null, so validators refuse it; it is read all the same.
            return found._replace(kinds=found.kinds - TYPES["null"], nullable=True)
        return found

    def _own(self, schema: dict[str, Any], resolver: Any) -> Shape:
        """Return the shape by the words that are about the value itself."""
        kinds, says_null, remarks = _kinds(schema, self._unions)
        if not self._unions and isinstance(schema.get("extends"), dict | list):
            remarks += ("extends: only draft 3 gives it a meaning",)
        properties = {name: part(one, resolver) for name, one in (schema.get("properties") or {}).items()}
        items, prefix = schema.get("items"), schema.get("prefixItems") or ()
        patterns = _of_names(schema, "patternProperties")
        words = ("additionalProperties", *(["unevaluatedProperties"] if self._siblings_count else []))
        rest = {word: schema[word] for word in words if word in schema}
        described = {word: one for word, one in rest.items() if isinstance(one, dict)}
        left_out = [f"properties whose names match {pattern!r}" for pattern in patterns]
        left_out += (f"properties that {word} describes" for word, one in described.items() if one)
        has_inner = bool(properties or described or isinstance(items, dict))
        return Shape(
            kinds,
            says_null,
            schema.get("nullable") is True,
            _formats(schema),
            some(part(one, resolver) for one in (items, *prefix)) if isinstance(items, dict) else None,
            properties=properties,
            values=some(part(one, resolver) for one in (*described.values(), *patterns.values()))
            if described
            else None,
            closed=False in rest.values() and not patterns,
            required=_required(schema),
            left_out=tuple(left_out),
            remarks=remarks,
            chosen="properties" not in schema
            and ("oneOf" in schema or "anyOf" in schema or len(schema.get("allOf", ())) > 1),
            parts=frozenset([id(schema)]) if has_inner else frozenset(),
        )


def followed(reference: Any, resolver: Any, path: str) -> Any:
    """Return what a reference refers to.

    :raises UnknownPartError: it is in no schema
    """
    from referencing.exceptions import Unresolvable

    try:
        return resolver.lookup(reference)
    except (Unresolvable, TypeError, AttributeError) as error:
        raise UnknownPartError.at(
            path, f"refers to {reference!r}, which is in no schema that this one names"
        ) from error


def _combined(schema: dict[str, Any], node: Callable[[Any], Node], unions: bool) -> Iterable[Node]:
    """Return the nodes of the words that apply other schemas to the same value.

    :param unions: whether to take those of draft 3
    """
    yield from map(node, schema.get("allOf", ()))
    if unions:
        yield from map(node, _listed(schema.get("extends")))
        types = _listed(schema.get("type"))
        if any(isinstance(kind, dict) for kind in types):
            yield some(node(one if isinstance(one, dict) else _OF_TYPE.get(one, True)) for one in types)
    for word, several in (("oneOf", exactly_one), ("anyOf", some)):
        if word in schema:
            yield several(map(node, schema[word]))
    if "if" in schema and ("then" in schema or "else" in schema):
        met = every([node(schema["if"]), node(schema.get("then", True))])
        yield some([met, node(schema.get("else", True))])
    for word in ("dependentSchemas", "dependencies"):
        for one in _of_names(schema, word).values():
            if isinstance(one, dict):
                yield some([node(one), ANYTHING])


def _required(schema: dict[str, Any]) -> tuple[str, ...]:
    """Return the names that all objects have, or those that have some other property."""
    given = [schema.get("required")]
    for word in ("dependentRequired", "dependencies"):
        given += _of_names(schema, word).values()
    return tuple(str(name) for names in given if isinstance(names, list) for name in names)


def _listed(value: Any) -> list[Any]:
    """Return the items of a word that may have one alone."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _of_names(schema: dict[str, Any], word: str) -> dict[str, Any]:
    found = schema.get(word)
    return found if isinstance(found, dict) else {}


def _ignored(schema: dict[str, Any]) -> Shape:
    """Return the shape of the words beside a reference, for drafts that ignore them."""
    beside = [word for word in _WORDS if word in schema]
    remarks = (f"{', '.join(beside)} beside $ref: up to draft 7 they have no meaning",) if beside else ()
    return Shape(nullable=schema.get("nullable") is True, remarks=remarks)


def _formats(schema: dict[str, Any]) -> frozenset[Any]:
    given = schema.get("format")
    settings = schema.get("connect.parameters", {})
    if schema.get("title") == _DECIMAL and isinstance(settings, dict):
        digits = str(settings.get("connect.decimal.precision", 38)), str(settings.get("scale", 0))
        if all(digit.removeprefix("-").isdecimal() for digit in digits):
            return frozenset([Digits(*map(int, digits))])
    return frozenset([given]) if given in _FORMATS else frozenset()


def _kinds(schema: dict[str, Any], unions: bool) -> tuple[frozenset[str], bool, tuple[str, ...]]:
    """Return the types of JSON, whether null is named, and remarks.

    :param unions: whether a type may be a schema, or any
    """
    given = schema.get("type")
    names = [given] if isinstance(given, str) else list(given or ())
    if unions and any(name == "any" or isinstance(name, dict) for name in _listed(given)):
        names = []
    unknown = [name for name in names if name not in TYPES]
    if unknown:
        return EVERY, False, (f"{unknown[0]!r} is no type of JSON Schema",)
    kinds = frozenset[str]().union(*(TYPES[name] for name in names)) if names else EVERY
    kinds -= _refused(schema.get("not"))
    allowed = [schema["enum"]] if isinstance(schema.get("enum"), list) else []
    allowed += [[schema["const"]]] if "const" in schema else []
    for values in allowed:
        narrowed = kinds & {_kind_of(value) for value in values}
        if names and "fraction" in kinds and "integer" in narrowed:
            narrowed |= {"fraction"}  # the column is that of the type, whatever numbers are listed
        kinds = narrowed or kinds
    if names and schema.get("connect.type") in _WHOLE and "integer" in kinds:
        kinds -= {"fraction"}
    return kinds, "null" in kinds and bool(names or allowed), ()


def _refused(schema: Any) -> frozenset[str]:
    """Return types that a schema refuses by the word `not`: all, null, or none of them."""
    if schema is True or schema == {}:
        return EVERY
    return TYPES["null"] if schema in _ONLY_NULL else frozenset()


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "fraction"
    return {int: "integer", str: "string", list: "array", dict: "object"}.get(type(value), "null")


def _meet(shapes: Iterable[Shape]) -> Shape:
    """Return the shape of values that have all shapes."""
    left = list(shapes)
    if len(left) == 1:
        return left[0]
    return Shape(
        EVERY.intersection(*(one.kinds for one in left)),
        any(one.says_null for one in left),
        any(one.nullable for one in left),
        frozenset().union(*(one.formats for one in left)),
        _all(one.items for one in left),
        _all(one.some_items for one in left),
        _merged([one.properties for one in left]),
        _merged([one.variants for one in left]),
        _all(one.values for one in left),
        _all(one.some_values for one in left),
        any(one.closed for one in left),
        _all_of(one.required for one in left),
        _all_of(one.left_out for one in left),
        _all_of(one.remarks for one in left),
        any(one.chosen for one in left),
        frozenset[int]().union(*(one.parts for one in left)),
    )


def _join(shapes: list[Shape]) -> Shape:
    """Return the shape of values that have one of the shapes."""
    left = [shape._replace(kinds=shape.settled) for shape in shapes if shape.kinds] or [Shape(frozenset())]
    if len(left) == 1:
        return left[0]
    texts = [one.formats for one in left if one.kinds & (TYPES["string"] | TYPES["number"])]
    items, some_items = _any((one.items, one.some_items) for one in left if "array" in one.kinds)
    return _objects(left)._replace(
        kinds=frozenset[str]().union(*(one.kinds for one in left)),
        says_null=any(one.says_null for one in left),
        nullable=any(one.nullable for one in left),
        formats=texts[0].intersection(*texts[1:]) if texts else frozenset(),
        items=items,
        some_items=some_items,
        required=_all_of(one.required for one in left),
        remarks=_all_of(one.remarks for one in left),
        chosen=any(one.chosen for one in left),
        parts=frozenset[int]().union(*(one.parts for one in left)),
    )


def _objects(shapes: list[Shape]) -> Shape:
    """Return the shape of the objects of one of the shapes."""
    left = [shape for shape in shapes if "object" in shape.kinds]
    kept = {_objects_key(one): one for one in left}
    if len(kept) < 2:
        found = next(iter(kept.values()), Shape())
        return found._replace(closed=bool(left) and all(one.closed for one in left))
    named, opened, open_count = dict[str, list[Node]](), dict[str, int](), sum(not one.closed for one in left)
    for one in left:
        for name in {**one.properties, **one.variants}:
            named.setdefault(name, []).append(one.within(name) or ANYTHING)
            opened[name] = opened.get(name, 0) + (not one.closed)
    variants = {name: some([*nodes, ANYTHING] if opened[name] < open_count else nodes) for name, nodes in named.items()}
    values, some_values = _any((one.values, one.some_values) for one in left)
    return Shape(
        variants=variants,
        values=values,
        some_values=some_values,
        closed=all(one.closed for one in left),
        left_out=_all_of(one.left_out for one in left),
    )


def _objects_key(shape: Shape) -> Any:
    inner = [node and node.key for node in (shape.values, shape.some_values)]
    return _keys(shape.properties), _keys(shape.variants), *inner


def _all(nodes: Iterable[Node | None]) -> Node | None:
    """Return the node of values that are of all nodes that are there."""
    left = [node for node in nodes if node is not None]
    return every(left) if left else None


def _any(pairs: Iterable[tuple[Node | None, Node | None]]) -> tuple[Node | None, Node | None]:
    """Return the inner nodes of one of several shapes, and those of some.

    :param pairs: those of each shape
    """
    given = list(pairs)
    nodes = [_all(pair) for pair in given]
    there = [node for node in nodes if node is not None]
    if given and all(all_of is not None for all_of, _ in given):
        return some(there), None
    return None, some(one or ANYTHING for one in nodes) if there else None


def _keys(nodes: Mapping[str, Node]) -> frozenset[Any]:
    return frozenset((name, node.key) for name, node in nodes.items())


def _merged(maps: Iterable[Mapping[str, Node]]) -> dict[str, Node]:
    found = dict[str, list[Node]]()
    for one in maps:
        for name, node in one.items():
            found.setdefault(name, []).append(node)
    return {name: every(nodes) for name, nodes in found.items()}


def _all_of(texts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple({text: None for some_texts in texts for text in some_texts})
