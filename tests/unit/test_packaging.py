"""The package as a thing to install: what is listed, and what is imported."""

from __future__ import annotations

import ast
import configparser
import json
import logging
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import pykafka
from pykafka import HashingPartitioner, RandomPartitioner, compiled
from pykafka.compat import messages
from pykafka.membershipprotocol import GroupMembershipProtocol
from pykafka.protocol.versions import VersionNegotiation
from tools.pythons import LATER

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted({*(ROOT / "pykafka").rglob("*.py"), *(ROOT / "pyspark_pykafka").glob("*.py")})
HANDLERS = sorted((ROOT / "handlers").rglob("*.py"))
COMPILED = [path.with_suffix(".py") for top in ("pykafka", "handlers") for path in sorted((ROOT / top).rglob("*.pxd"))]
# Concurrency, sockets, clocks and chance are asked of the injected handler.
FORBIDDEN_MODULES = {
    *("threading", "_thread", "queue", "socket", "ssl", "select", "selectors", "gevent", "concurrent", "asyncio"),
    *("multiprocessing", "handlers"),
}
FORBIDDEN_CALLS = {("time", name) for name in ("sleep", "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter")}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def settings() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def run(script: str, **environment: str) -> str:
    """Run a script in a Python of its own; return what it printed."""
    kept = {key: value for key, value in os.environ.items() if key != compiled.ENVIRONMENT_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def nodes_that_may_import(module: str, path: Path) -> list[ast.AST]:
    """Return the nodes of a file; none if its text does not have the module's name at all, which is quick to see."""
    text = path.read_text()
    return list(ast.walk(ast.parse(text))) if module in text else []


def test_every_package_directory_is_listed() -> None:
    found = {"pykafka.handlers"}
    for top in ("pykafka", "pyspark_pykafka"):
        inits = (ROOT / top).rglob("__init__.py")
        found |= {".".join(path.parent.relative_to(ROOT).parts) for path in inits}
    assert set(settings()["options"]["packages"].split()) == found


def test_every_directory_with_sources_is_a_package() -> None:
    folders = {path.parent for path in (*SOURCES, *HANDLERS)}
    assert [name_of(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_handlers_are_reached_through_a_relative_symlink() -> None:
    link = ROOT / "pykafka" / "handlers"
    assert link.is_symlink()
    assert os.readlink(link) == "../handlers"
    assert settings()["options"]["package_dir"].split() == ["pykafka.handlers", "=", "handlers"]


def distribution(*what: str) -> str:
    """Tell what setup.py says of the distribution."""
    command = [sys.executable, "-W", "ignore", "setup.py", "--quiet", *what]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_version_is_one() -> None:
    assert settings()["metadata"]["version"] == "attr: pykafka._version.__version__"
    assert distribution("--version").split() == [pykafka.__version__]
    assert f"\n{pykafka.__version__} " in (ROOT / "CHANGES.rst").read_text()
    sources = {path: path.read_text() for path in (*SOURCES, *HANDLERS, ROOT / "setup.py")}
    number = pykafka.__version__.partition(".dev")[0]
    assert [name_of(path) for path, text in sources.items() if f'"{number}' in text] == ["pykafka/_version.py"]


def test_classifiers_wheels_and_tests_are_about_the_same_pythons() -> None:
    prefix = "Programming Language :: Python :: "
    named = [line.removeprefix(prefix) for line in settings()["metadata"]["classifiers"].splitlines() if prefix in line]
    releases = [name for name in named if re.fullmatch(r"3\.\d+", name)]
    assert releases == ["3.11", *LATER]
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["build"]
    assert built.split() == [f"cp{release.replace('.', '')}-*" for release in releases]
    assert settings()["options"]["python_requires"] == f">={releases[0]}"


def test_brokers_are_told_the_version() -> None:
    assert pykafka.__version__.encode() in b"".join(VersionNegotiation().next_requests())
    assert messages.ApiVersionsRequest().wire(3).client_software_version == pykafka.__version__


def test_the_long_description_has_no_link_that_needs_a_checkout() -> None:
    text = distribution("--long-description")
    assert text.startswith("# PyKafka\n")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if "://" not in link] == []


def test_declarations_lie_beside_their_sources() -> None:
    assert COMPILED
    assert [name_of(path) for path in COMPILED if not path.exists()] == []


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_the_one_rule(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    allowed = {"ssl"} if (ROOT / "pykafka" / "security") in path.parents else set()
    broken = [
        f"line {line}: {module}"
        for line, module in imports(nodes)
        if module.split(".")[0] in FORBIDDEN_MODULES - allowed or tuple(module.split(".")) in FORBIDDEN_CALLS
    ]
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, name = node.value.id, node.attr
            # random.Random is a type; everything else of that module is its global state.
            if (owner, name) in FORBIDDEN_CALLS or (owner == "random" and name.islower()):
                broken.append(f"line {node.lineno}: {owner}.{name}")
    assert broken == [], "ask the injected handler instead"


@pytest.mark.parametrize("path", [*SOURCES, *HANDLERS], ids=name_of)
def test_cython_is_no_dependency_at_run_time(path: Path) -> None:
    nodes = nodes_that_may_import("cython", path)
    guarded = {
        line
        for node in nodes
        if isinstance(node, ast.Try)
        for line, _ in imports(ast.walk(ast.Module([*node.body], [])))
    }
    assert [line for line, module in imports(nodes) if module == "cython" and line not in guarded] == []


@pytest.mark.parametrize(
    "path",
    sorted(path for top in ("tests", "examples", "benchmarks", "tools") for path in (ROOT / top).rglob("*.py")),
    ids=name_of,
)
def test_nobody_imports_a_second_copy_of_handlers(path: Path) -> None:
    nodes = nodes_that_may_import("handlers", path)
    assert [line for line, module in imports(nodes) if module.split(".")[0] == "handlers"] == []


@pytest.mark.parametrize("path", COMPILED, ids=name_of)
def test_compiled_modules_have_no_negative_index(path: Path) -> None:
    """They are compiled without `wraparound`: such an index reads what is before a list. Arrays of numpy know it."""
    if not path.exists():
        return
    indexes = [node.slice for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Subscript)]
    negative = [
        index.lineno
        for index in indexes
        if any(isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) for node in ast.walk(index))
    ]
    assert negative == []


def test_public_names() -> None:
    instances = {
        "RangeProtocol": GroupMembershipProtocol,
        "RoundRobinProtocol": GroupMembershipProtocol,
        "hashing_partitioner": HashingPartitioner,
        "random_partitioner": RandomPartitioner,
    }
    assert pykafka.__all__ == sorted(pykafka.__all__)
    for name in pykafka.__all__:
        found = getattr(pykafka, name)
        assert isinstance(found, instances[name]) if name in instances else found.__name__ == name
    assert set(pykafka.__all__) <= set(dir(pykafka))
    assert set(pykafka.__all__) == set(pykafka._HOMES)
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(pykafka, "no_such_name")  # noqa: B009 - type checkers know that there is none


def test_checkers_know_every_public_name() -> None:
    """Names that `__getattr__` imports have types by imports that checkers alone read."""
    source = Path(pykafka.__file__).read_text()
    blocks = [
        one for one in ast.parse(source).body if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING"
    ]
    imported = {
        name.name for one in blocks for node in one.body if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert imported == set(pykafka.__all__)


def test_all_of_it_needs_no_extra() -> None:
    """Names of what needs an extra are there without it, and say what is missing when they are used."""
    script = """
import sys
for extra in ("gevent", "pyspark", "pyarrow", "confluent_kafka", "click", "rich", "typing_extensions"):
    sys.modules[extra] = None  # importing it fails
from pykafka import *
import pykafka
given = dict(globals())
assert all(given[name] is getattr(pykafka, name) for name in pykafka.__all__)
try:
    KafkaClient("127.0.0.1:1", use_greenlets=True)
except ImportError as error:
    print(error)
with EmbeddedCluster() as cluster, KafkaClient(cluster.hosts) as client:
    print(len(client.brokers))
"""
    assert run(script).splitlines() == ["greenlets need gevent: pip install gevent", "3"]


#: Extras of people who work on the package itself.
INTERNAL = {"test", "pools", "fuzz", "mutants", "lint", "docs", "bench", "dist", "cross"}


@pytest.mark.parametrize("page", ["README.md", "docs/installing.md"])
def test_a_page_lists_every_extra(page: str) -> None:
    listed = re.findall(r"^\| `([a-z0-9]+)` \|", (ROOT / page).read_text(), re.MULTILINE)
    assert set(listed) >= set(settings()["options.extras_require"]) - INTERNAL


def test_a_default_install_is_enough_to_produce_and_consume() -> None:
    """Neither loads a package that `install_requires` does not name; codecs and checksums are all that it names."""
    wanted = settings()["options"]["install_requires"]
    assert {line.partition(" ")[0] for line in wanted.splitlines() if line} == {"cramjam", "crc32c"}
    script = """
import json, sys
from pykafka import EmbeddedCluster, KafkaClient
with EmbeddedCluster(topics={"t": 1}) as cluster, KafkaClient(cluster.hosts) as client:
    before = set(sys.modules)
    with client.producer(compression="lz4") as producer:
        producer.produce("t", b"value")
    with client.consumer("t", group="g", auto_offset_reset="earliest") as consumer:
        assert consumer.one(timeout=20).value == b"value"
names = {name.partition(".")[0] for name in sys.modules}
print(json.dumps(sorted(names - sys.stdlib_module_names - {"__main__", "__mp_main__", "confluent_kafka"})))
"""
    loaded = set(json.loads(run(script)))
    assert {"pykafka", "cramjam", "crc32c"} <= loaded
    assert loaded & {"kazoo", "snappy", "gevent", "greenlet", "pyarrow", "click", "numpy", "google"} == set()


@pytest.mark.parametrize(
    "use",
    [
        "KafkaClient(zookeeper_hosts='localhost:1')",
        "import pykafka.groups.zookeeper.session",
        "import pykafka.cli.zookeeper",
        "from pykafka.metadata.zookeeper import broker_addresses",
    ],
)
def test_zookeeper_without_kazoo_names_the_extra(use: str) -> None:
    lines = ["import sys", "sys.modules['kazoo'] = None", "from pykafka import KafkaClient", "try:", f"    {use}"]
    said = run("\n".join([*lines, "except ImportError as error:", "    print(error.name, error)\n"]))
    assert said.startswith("kazoo ZooKeeper needs the package kazoo: install the extra zookeeper")


def test_examples_and_pages_import_from_the_root_what_is_there() -> None:
    """Examples and pages import from `pykafka` only names that it has."""
    texts = [*(ROOT / "examples").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    wanted = {
        name.split(" as ")[0].strip(" ()\n")
        for text in texts
        for found in re.findall(r"^ *from pykafka import (\([^)]*\)|[^\n(]+)", text.read_text(), re.MULTILINE)
        for name in found.split("#")[0].split(",")
    }
    assert "KafkaClient" in wanted
    assert wanted - {""} - set(pykafka.__all__) == set()


def test_a_library_keeps_quiet() -> None:
    assert any(isinstance(one, logging.NullHandler) for one in logging.getLogger("pykafka").handlers)
    script = """
import json, logging, signal, sys, threading
before = [signal.getsignal(number) for number in signal.valid_signals()]
import pykafka, pykafka.client, pykafka.compat.simple_consumer, pykafka.producer
pykafka.KafkaClient, pykafka.Producer, pykafka.SimpleConsumer
assert before == [signal.getsignal(number) for number in signal.valid_signals()]
assert threading.active_count() == 1
assert not logging.getLogger().handlers
extras = ("gevent", "pyspark", "pyarrow", "confluent_kafka", "Cython")
print(json.dumps([name for name in extras if name in sys.modules]))
"""
    # Nobody pays for what he does not use.
    assert json.loads(run(script)) == []


def test_windows_is_refused_in_one_sentence() -> None:
    said = run("import os\nos.name = 'nt'\ntry:\n    import pykafka\nexcept ImportError as error:\n    print(error)\n")
    assert said.startswith("PyKafka does not run on Windows, which has no poll()")
    assert said.count("\n") == 1
