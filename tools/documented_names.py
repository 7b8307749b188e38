"""Write docs/development/documented-names.md: every documented name, and the tests that use it.

    python tools/documented_names.py

tests/unit/test_documented_api.py proves that each name exists, with its parameters and defaults; this page shows where tests
use it. A test uses a name if it, or a helper that it calls in its module, mentions the name; it uses a member if its
module mentions the class too, or a function that returns one. The script reads sources only: the page is a guide, no proof.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "development" / "documented-names.md"
#: The test that every name has.
SURFACE = "unit/test_documented_api.py"
#: Members that operators and statements call, as the sources of tests show them.
SIGNS = {
    "__enter__": "with ",
    "__exit__": "with ",
    "__iter__": "for ",
    "__getitem__": "[",
    "__call__": "(",
    "__eq__": "==",
    "__ne__": "!=",
    "__hash__": "{",
    "__lt__": "sorted",
    "__len__": "len(",
    "__repr__": "repr(",
    "__contains__": " in ",
}

#: Functions that give tests an instance of a class without its name.
GIVERS = {
    "KafkaClient": "client",
    "Cluster": r"client\.cluster|_cluster",
    "TopicDict": r"\.topics",
    "Broker": r"broker",
    "Topic": "topic",
    "Partition": r"\.partitions",
    "Producer": "get_producer|get_sync_producer",
    "OwnedBroker": "_owned_brokers",
    "SimpleConsumer": "get_simple_consumer",
    "OwnedPartition": "_partitions_by_id",
    "BalancedConsumer": "get_balanced_consumer",
    "ManagedBalancedConsumer": "managed=True",
    "RdKafkaProducer": "use_rdkafka=True",
    "RdKafkaSimpleConsumer": "use_rdkafka=True",
    "ThreadingHandler": "handler: Handler",
    "GEventHandler": "handler: Handler",
    "Request": "request",
}


def names() -> Iterator[tuple[str, str]]:
    """Yield (module, name) of everything documented; members as Class.member."""
    documented: dict[str, Any] = json.loads((ROOT / "tests" / "documented_api.json").read_text())
    for module, content in documented["modules"].items():
        for name, what in content.get("classes", {}).items():
            yield module, name
            for member in [*what.get("methods", {}), *what.get("attributes", ())]:
                yield module, f"{name}.{member}"
        for kind in ("functions", "exceptions", "names"):
            for name in content.get(kind, ()):
                yield module, name


def tests() -> Iterator[tuple[str, str, str]]:
    """Yield (test, source, module's source) of every test; the source includes the helpers that it calls in its module."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        whole = path.read_text()
        tree = ast.parse(whole)
        found = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        helpers = {node.name: ast.unparse(node) for node in found if not node.name.startswith("test_")}
        where = path.relative_to(ROOT / "tests").as_posix()
        if where == SURFACE or where.startswith("docs/"):  # those are about pages
            continue
        for node in found:
            if node.name.startswith("test_"):
                source = ast.unparse(node)
                used = [text for name, text in helpers.items() if re.search(rf"\b{name}\b", source)]
                yield f"{where}::{node.name}", "\n".join([source, *used]), whole


def pattern(name: str) -> re.Pattern[str]:
    """Return a pattern of tests' sources that use a name."""
    cls, _, member = name.partition(".")
    if not member:
        return re.compile(rf"\b{cls}\b")
    if member in SIGNS:
        return re.compile(rf"\b{cls}\b[\s\S]*{re.escape(SIGNS[member])}")
    return re.compile(rf"\.{member}\b|\b{member}=|['\"]{member}['\"]")


def main() -> None:
    """Write the table."""
    sources = list(tests())
    lines = [
        "# Documented names and the tests that use them",
        "",
        "Made by `python tools/documented_names.py` from tests/documented_api.json. That each name exists with its documented",
        f"parameters and defaults is shown by tests/{SURFACE}, in a case of its own; this table says where it is used.",
        "",
    ]
    last = ""
    used = total = 0
    for module, name in names():
        if module != last:
            lines += ["", f"## {module}", "", "| name | tests |", "|---|---|"]
            last = module
        wanted = pattern(name)
        cls = name.partition(".")[0]
        giver = re.compile(rf"\b{cls}\b|{GIVERS[cls]}" if cls in GIVERS else rf"\b{cls}\b")
        found = [test for test, source, whole in sources if wanted.search(source) and giver.search(whole)]
        shown = ", ".join(f"`{test}`" for test in found[:2]) + (" and others" if len(found) > 2 else "")
        lines.append(f"| `{name}` | {shown or 'its existence and signature alone'} |")
        total += 1
        used += bool(found)
    lines[4:4] = [f"{total} names, {used} of them used by tests besides.", ""]
    TABLE.write_text("\n".join(lines) + "\n")
    print(f"{TABLE.relative_to(ROOT)}: {total} names, {used} of them used by tests besides")


if __name__ == "__main__":
    main()
