"""Write what is made from the options' rows: signatures, `:param` lines, TypedDicts and docs/configuration.md.

    python tools/options.py           # write
    python tools/options.py --check   # fail if a file is out of date

The rows stand in pykafka/*/options.py. A signature keeps the order that it has; the parameter of a new row comes last, by
keyword. Parameters without a row, and what a signature alone can say, as that a parameter has no default, stay as they are.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pykafka
from pykafka.compat.options import GroupOptions, TopicConsumerOptions, TopicProducerOptions, ZooKeeperOptions
from pykafka.consumer.options import ConsumerOptions, KafkaConsumerOptions
from pykafka.groups.options import MemberOptions, SubscriberOptions
from pykafka.metadata.options import MetadataSettings
from pykafka.metrics.options import MetricsSettings
from pykafka.network.options import ConnectionSettings
from pykafka.parallel.options import ParallelOptions
from pykafka.producer.options import KafkaProducerOptions, ProducerOptions
from pykafka.sharegroups.options import ShareConsumerOptions
from pykafka.utils import INT64_MAX
from pykafka.utils.option_table import Options, Row, above_0, at_least_0, up_to

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pykafka"
PAGE = ROOT / "docs" / "configuration.md"
WIDTH = 120


class Call(NamedTuple):
    """A constructor or method that takes options.

    :param path: of its module, below pykafka/
    :param cls: the class
    :param faces: as which it has the options
    :param tables: with its options; of two rows of one name, the first counts
    :param method: its name
    :param like: a class whose `:param` lines hold here, too: those of rows with the same meaning are not repeated
    """

    path: str
    cls: str
    faces: tuple[str, ...]
    tables: tuple[type[Options], ...]
    method: str = "__init__"
    like: str = ""

    def rows(self) -> dict[str, Row]:
        """Return {name of a parameter: row}."""
        found = [row for table in self.tables for row in table.rows(self.faces) if row.name]
        return {row.name: row for row in reversed(found)}


_ZOOKEEPER, _MANAGED = ("zookeeper", "group", "topic"), ("managed", "group", "topic")
_RDKAFKA = "compat/rdkafka/classes.py"
_GROUP = (GroupOptions, ConsumerOptions, TopicConsumerOptions)
_SIMPLE = (ConsumerOptions, TopicConsumerOptions)
CALLS = [
    Call("client.py", "KafkaClient", ("client",), (ConnectionSettings, MetadataSettings, MetricsSettings)),
    Call("kafkaproducer.py", "KafkaProducer", ("producer",), (KafkaProducerOptions,)),
    Call("kafkaconsumer.py", "KafkaConsumer", ("consumer",), (KafkaConsumerOptions, SubscriberOptions)),
    Call("sharegroups/consumer.py", "ShareConsumer", ("share",), (ShareConsumerOptions,)),
    Call("parallel/consuming.py", "InParallel", ("parallel",), (ParallelOptions,), "parallel"),
    Call("compat/producer.py", "Producer", ("topic",), (ProducerOptions, TopicProducerOptions)),
    Call("compat/simple_consumer.py", "SimpleConsumer", ("topic",), _SIMPLE),
    Call(
        "compat/balanced_consumer.py",
        "BalancedConsumer",
        _ZOOKEEPER,
        (*_GROUP, ZooKeeperOptions),
        like="SimpleConsumer",
    ),
    Call(
        "compat/managed_balanced_consumer.py",
        "ManagedBalancedConsumer",
        _MANAGED,
        (*_GROUP, MemberOptions),
        like="SimpleConsumer",
    ),
    Call(_RDKAFKA, "RdKafkaProducer", ("rdkafka", "topic"), (ProducerOptions, TopicProducerOptions)),
    Call(_RDKAFKA, "RdKafkaSimpleConsumer", ("rdkafka", "topic"), _SIMPLE),
]
OF = {call.cls: call for call in CALLS}
#: Classes whose `:param` lines name only what differs from their base: written by hand.
BY_HAND = {"RdKafkaProducer", "RdKafkaSimpleConsumer"}
#: Parameters that TypedDicts leave out: given by position, or named by overloads, which infer types by them.
LEFT_OUT = {"self", "cluster", "topic", "topics", "consumer_group"} | {
    f"{part}_{what}" for part in ("key", "value") for what in ("serializer", "deserializer")
}
#: {path: {TypedDict: (its base, the classes all of which have its arguments)}}
TYPED: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "compat/options.py": {
        "ProducerArguments": ("", ("Producer",)),
        "ConsumerArguments": ("", ("SimpleConsumer", "BalancedConsumer", "ManagedBalancedConsumer")),
        "SimpleConsumerArguments": ("ConsumerArguments", ("SimpleConsumer",)),
        "KafkaConsumerArguments": ("", ("KafkaConsumer",)),
        "GroupConsumerArguments": ("ConsumerArguments", ("BalancedConsumer", "ManagedBalancedConsumer")),
        "BalancedConsumerArguments": ("GroupConsumerArguments", ("BalancedConsumer",)),
        "ManagedBalancedConsumerArguments": ("GroupConsumerArguments", ("ManagedBalancedConsumer",)),
    },
    "producer/options.py": {"KafkaProducerArguments": ("", ("KafkaProducer",))},
    "sharegroups/options.py": {"ShareConsumerArguments": ("", ("ShareConsumer",))},
}
#: Types of arguments that checkers infer by an overload, and editors show in a plainer form.
PLAIN = {"KafkaProducerArguments": {"on_delivery": "Callable[..., object] | None"}}


# -- signatures ------------------------------------------------------------------------------------------------------


class Parameter(NamedTuple):
    """A parameter of a signature, as text.

    :param name: its name, with "*" before it if it takes many; "*" alone begins those by keyword
    :param type: its annotation
    :param default: None for none
    """

    name: str
    type: str = ""
    default: str | None = None

    def __str__(self) -> str:
        text = f"{self.name}: {self.type}" if self.type else self.name
        return text if self.default is None else f"{text} = {self.default}"


def _node(source: str, call: Call) -> tuple[ast.ClassDef, ast.FunctionDef]:
    cls = next(one for one in ast.parse(source).body if isinstance(one, ast.ClassDef) and one.name == call.cls)
    return cls, next(one for one in cls.body if isinstance(one, ast.FunctionDef) and one.name == call.method)


def parameters(source: str, call: Call) -> list[Parameter]:
    """Return the parameters of a call: as its source has them, but as the rows say."""
    arguments = _node(source, call)[1].args
    rows = call.rows()
    left = dict(rows)

    def made(argument: ast.arg, default: ast.expr | None, before: str = "") -> Parameter:
        row = left.pop(argument.arg, None)
        text = None if default is None else ast.get_source_segment(source, default)
        if row is None:
            annotation = "" if argument.annotation is None else ast.get_source_segment(source, argument.annotation)
            return Parameter(before + argument.arg, annotation or "", text)
        return Parameter(argument.arg, row.type, None if text is None else code(row))

    missing: list[ast.expr | None] = [None] * (len(arguments.args) - len(arguments.defaults))
    found = [made(*pair) for pair in zip(arguments.args, [*missing, *arguments.defaults], strict=True)]
    by_keyword = [made(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    by_keyword += [Parameter(row.name, row.type, code(row)) for row in reversed(list(left.values()))]
    many = [] if arguments.kwarg is None else [made(arguments.kwarg, None, "**")]
    return [*found, *([Parameter("*")] if by_keyword else []), *by_keyword, *many]


def code(row: Row) -> str:
    """Return the default of a row as a signature has it."""
    value = row.default
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if named(value):
        return named(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, int) and not isinstance(value, bool) and value >= 10_000:
        for unit, text in (
            [(60_000, "60 * 1000"), (1000, "1000")] if row.name.endswith("_ms") else [(2**20, "1024 * 1024")]
        ):
            if value % unit == 0:
                return f"{value // unit} * {text}".removeprefix("1 * ")
    return "2**31 - 1" if value == 2**31 - 1 else repr(value).replace("'", '"')


def named(value: Any) -> str:
    """Return the public name of an object; "" if it has none."""
    return next((name for name in pykafka.__all__ if getattr(pykafka, name) is value), "")


def with_signature(source: str, call: Call) -> str:
    """Return a module's source with the parameters and `:param` lines of a call as the rows say."""
    found = parameters(source, call)
    cls, function = _node(source, call)
    lines = source.split("\n")
    inside = [f"        {one}," for one in found]
    first, returns = function.body[0], ast.unparse(function.returns) if function.returns is not None else ""
    bodyless = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.value.value is ...
    head = [f"    def {call.method}(", *inside, f"    ) -> {returns}:" + (" ..." if bodyless else "")]
    end = (first.end_lineno or 0) if bodyless else first.lineno - 1
    documented = cls if call.method == "__init__" else function
    text = ast.get_docstring(documented, clean=False) or ""
    written = "\n".join([*lines[: function.lineno - 1], *head, *lines[end:]])
    if call.cls in BY_HAND:
        return written
    like = OF[call.like].rows() if call.like else {}
    rows = {name: row for name, row in call.rows().items() if name not in like or like[name].meaning != row.meaning}
    names = [name for one in found if (name := one.name.lstrip("*")) in rows or name not in call.rows()]
    return written.replace(text, with_params(text, names, rows), 1)


def with_params(docstring: str, names: list[str], rows: dict[str, Row]) -> str:
    """Return a docstring with the `:param` lines of rows."""
    blocks = list(re.finditer(r"^( +):param (\w+):.*\n(?:\1 +\S.*\n)*", docstring, re.MULTILINE))
    by_hand = {block[2]: block[0] for block in blocks}
    indent = blocks[0][1]
    lines = []
    for name in names:
        if name in rows:
            text = f"{indent}:param {name}: {rows[name].meaning}"
            parts = textwrap.wrap(text, WIDTH, subsequent_indent=f"{indent}    ", break_on_hyphens=False)
            lines.append("".join(f"{part}\n" for part in parts))
        else:
            lines.append(by_hand.get(name, ""))
    return docstring[: blocks[0].start()] + "".join(lines) + docstring[blocks[-1].end() :]


# -- types -----------------------------------------------------------------------------------------------------------


def arguments(name: str) -> dict[str, str]:
    """Return the fields of a TypedDict, those of its base as well."""
    _, classes = next(one[name] for one in TYPED.values() if name in one)
    signatures = [parameters((PACKAGE / OF[cls].path).read_text(), OF[cls]) for cls in classes]
    shared = set.intersection(*({one.name for one in signature} for signature in signatures)) - LEFT_OUT - {"*"}
    return {one.name: PLAIN.get(name, {}).get(one.name, one.type) for one in signatures[0] if one.name in shared}


def with_types(source: str, path: str) -> str:
    """Return a module's source with the fields of its TypedDicts."""
    lines = source.split("\n")
    for cls in reversed([one for one in ast.parse(source).body if isinstance(one, ast.ClassDef)]):
        if cls.name in TYPED.get(path, ()):
            base = TYPED[path][cls.name][0]
            left = arguments(base) if base else {}
            fields = [f"    {name}: {kind}" for name, kind in arguments(cls.name).items() if name not in left]
            lines[cls.body[1].lineno - 1 : cls.end_lineno] = fields
    return "\n".join(lines)


# -- the page --------------------------------------------------------------------------------------------------------

#: What these checks take.
ALLOWED: dict[Any, str] = {above_0: "1 or more", at_least_0: "0 or more"}
#: Parameters that are no options of the page: which cluster, which topic, and what only the client itself passes on.
NO_OPTIONS = {
    "self",
    "handle",
    "cluster",
    "topic",
    "topics",
    "generation_id",
    "consumer_id",
    "zookeeper",
    "use_rdkafka",
}
#: Parameters that have no rows: name -> (allowed, costs).
OTHERS = {
    "buffer_memory": (
        f"None, 1 to {INT64_MAX}",
        "A small budget makes `produce()` wait. Without one a program with many producers takes as much as they together.",
    ),
    "hosts": ("", "Name two or three brokers: a client that starts needs one of them to be up."),
    "zookeeper_hosts": ("", "Needs ZooKeeper; `hosts` needs brokers only."),
    "socket_timeout_ms": (
        "1 or more",
        "A short time notices a silent broker sooner, and takes a slow one for dead. The end of a consumer may take as long.",
    ),
    "offsets_channel_socket_timeout_ms": ("1 or more", "As `socket_timeout_ms`."),
    "use_greenlets": ("", "Needs the extra `gevent`. [Greenlets and forks](greenlets.md) says when to use it."),
    "exclude_internal_topics": ("", "False shows `__consumer_offsets` and the like."),
    "client_rack": ("", "Less traffic between zones. A replica has messages a little later than the leader."),
    "allow_auto_create_topics": ("", "True makes a topic of a misspelt name, where brokers allow that."),
    "listener": (
        "an object with some of `on_revoked(partitions)`, `on_assigned(partitions)`, `on_lost(partitions)`",
        "Its calls hold up the call that reads, and the rebalance.",
    ),
    "dead_letters": (
        "None, the name of a topic, `DeadLetters(...)`",
        "None ends the run at the first record that fails for good; with it your code has to look at that topic.",
    ),
}
HEAD = """\
# Configuration

Every option, with its default. Options are keyword arguments: of `KafkaClient(...)`, `client.producer(...)`,
`client.consumer(...)`, `client.share_consumer(...)`, `consumer.parallel(...)`, and of [PyKafka 2's classes](pykafka2.md).
A name that does not exist, and a value that is not allowed, are refused by name; but options for True or False that
PyKafka 2.8 has take any value as true or false, as they do there.
[Spark's options](spark.md#options) and [pipelines](pipeline.md#the-file) have tables of their own.

<!-- Made by `python tools/options.py` from the rows in pykafka/*/options.py; edit those. -->
"""
PRODUCER = "Set three defaults: `partitioner`, `required_acks` and `linger_ms`."


class Section(NamedTuple):
    """A table of the page.

    :param title: its heading
    :param text: what stands above the table
    :param cls: the class that has the parameters
    :param wanted: the only parameters that belong here; None for all
    """

    title: str
    text: str
    cls: str
    wanted: set[str] | None = None


def sections() -> list[Section]:
    """Return the tables, in the order of the page."""
    simple, members = OF["SimpleConsumer"].rows().keys(), {row.name for row in GroupOptions.rows()}
    return [
        Section("Clients", "Of `KafkaClient`.", "KafkaClient"),
        Section("Producers", "Of `client.producer`. [Producing](producing.md) shows it.", "KafkaProducer"),
        Section(
            "Consumers",
            "Of `client.consumer`. [Consuming](consuming.md) shows it. `session_timeout_ms` to `group_instance_id` are "
            "for members of a group.",
            "KafkaConsumer",
        ),
        Section(
            "Consumers of a share group",
            "Of `client.share_consumer`. [Share groups](share-groups.md) shows it.",
            "ShareConsumer",
        ),
        Section("Parallel work", "Of `consumer.parallel`. [Work in parallel](parallel.md) shows it.", "InParallel"),
        Section(
            "PyKafka 2: producers",
            f"Of `get_producer` and `get_sync_producer` of a topic; [PyKafka 2's classes](pykafka2.md) shows them. {PRODUCER}",
            "Producer",
        ),
        Section(
            "PyKafka 2: consumers",
            "Of `get_simple_consumer`, and of `get_balanced_consumer`, but for `partitions`.",
            "SimpleConsumer",
        ),
        Section(
            "PyKafka 2: consumers of a group",
            "Of `get_balanced_consumer`, in addition. `consumer_group` is required there.",
            "BalancedConsumer",
            members - simple,
        ),
        Section(
            "PyKafka 2: groups that the brokers keep",
            "Of `get_balanced_consumer(managed=True)`, in addition.",
            "ManagedBalancedConsumer",
            {row.name for row in MemberOptions.rows()},
        ),
        Section(
            "PyKafka 2: groups in ZooKeeper",
            "Of `get_balanced_consumer(managed=False)`, the default, in addition.",
            "BalancedConsumer",
            {row.name for row in ZooKeeperOptions.rows()},
        ),
    ]


def function(cls: str) -> tuple[Any, str]:
    """Return a call and the docstring that has its `:param` lines."""
    if cls == "InParallel":
        return pykafka.KafkaConsumer.parallel, inspect.getdoc(pykafka.KafkaConsumer.parallel) or ""
    return getattr(pykafka, cls), inspect.getdoc(getattr(pykafka, cls)) or ""


def unit(name: str) -> str:
    """Return what a number of an option counts."""
    if name.endswith("_ms"):
        return " ms"
    if name.endswith("_bytes") or name in {"max_request_size", "buffer_memory"}:
        return " bytes"
    return " messages" if name.endswith("_messages") else ""


def shown(parameter: inspect.Parameter) -> str:
    """Return how the page writes a default."""
    default = parameter.default
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return ""
    if default is inspect.Parameter.empty:
        return "required"
    if isinstance(default, enum.Enum):
        return f"`{type(default).__name__}.{default.name}`"
    if isinstance(default, bool) or default is None or default == -1:
        return str(default)
    if default == ():
        return "none"
    if isinstance(default, int):
        counted = unit(parameter.name)
        return f"{default}{counted.removesuffix('s') if default == 1 else counted}"
    if isinstance(default, str):
        return f'`"{default}"`'
    if isinstance(default, float):
        return f"{default:g} s"
    return f"`{named(default)}`"


def allowed(parameter: inspect.Parameter, row: Row) -> str:
    """Return which values an option takes; nothing if its meaning says it."""
    if row.allowed:
        return row.allowed
    if isinstance(parameter.default, bool):
        return "True, False"
    check: Any = row.check
    if isinstance(check, partial) and check.func is up_to:
        highest, lower = check.args
        return ALLOWED[lower].replace("or more", f"to {highest}")
    return ALLOWED.get(check, "")


def cells(section: Section) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the rows of a table."""
    rows = OF[section.cls].rows()
    call, text = function(section.cls)
    meanings = re.findall(r"^:param (\w+): (.*?)(?=^:|\Z)", text, re.MULTILINE | re.DOTALL)
    by_hand = {name: " ".join(meaning.split()) for name, meaning in meanings}
    for name, parameter in inspect.signature(call).parameters.items():
        if name in NO_OPTIONS or (section.wanted is not None and name not in section.wanted):
            continue
        row = rows.get(name)
        if row is None:
            row = Row(name, name, "", None, None, by_hand[name], *OTHERS.get(name, ("", "")))  # type: ignore[arg-type]
        if not is_for_old_code(row.meaning):
            yield f"`{name}`", shown(parameter), allowed(parameter, row), row.meaning, row.costs


def is_for_old_code(meaning: str) -> bool:
    """Return whether a parameter is taken and means nothing."""
    return meaning.startswith("accepted for old code")


def old(cls: str) -> str:
    """Return the parameters of a class that are taken and mean nothing."""
    return ", ".join(
        f"`{name}`" for name in re.findall(r"^:param (\w+): accepted for old", function(cls)[1], re.MULTILINE)
    )


def page() -> str:
    """Return docs/configuration.md."""
    parts = [HEAD]
    for section in sections():
        parts.append(f"## {section.title}\n\n{section.text}\n")
        table = [("option", "default", "allowed", "meaning", "what it costs, or trades"), ("---",) * 5, *cells(section)]
        escaped = (tuple(cell.replace("|", "\\|") for cell in row) for row in table)
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in escaped) + "\n")
    gone = [f"{cls}: {old(cls)}" for cls in ("KafkaClient", "Producer", "SimpleConsumer", "BalancedConsumer")]
    parts.append(f"## Accepted without effect\n\nFor code written for PyKafka 2. {'. '.join(gone)}.\n")
    return "\n".join(parts)


# -- files -----------------------------------------------------------------------------------------------------------


def made() -> dict[Path, str]:
    """Return what each file should be, but for the page, which is made from the signatures of the others."""
    found = {}
    for path in dict.fromkeys([*(call.path for call in CALLS), *TYPED]):
        source = (PACKAGE / path).read_text()
        for call in CALLS:
            if call.path == path:
                source = with_signature(source, call)
        found[PACKAGE / path] = with_types(source, path)
    return found


def main(argv: list[str]) -> int:
    """Write all files, or check them."""
    stale = {path: text for path, text in made().items() if path.read_text() != text}
    if not stale and PAGE.read_text() != page():
        stale = {PAGE: page()}
    if "--check" in argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: python tools/options.py")
        return bool(stale)
    for path, text in stale.items():
        path.write_text(text)
        print(f"{path.relative_to(ROOT)} written")
    if PAGE not in stale and stale:  # the page shows the new signatures, which this process has not imported
        return subprocess.run([sys.executable, __file__], check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
