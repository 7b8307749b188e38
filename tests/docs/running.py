"""Run the programs of a page, in a process of their own: `python -m tests.docs.running PAGE`. Ends with status 0 or 1."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import importlib.util
import inspect
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pykafka
from pykafka import Topic
from pykafka.embedded import EmbeddedCluster
from tests.brokers import KafkaCluster
from tests.docs.pages import Block, given_names, programs, wants_real_cluster
from tests.support.entrypoints import write_entry_points

if TYPE_CHECKING:
    from tests.support.registrystub import RegistryStub

#: The addresses that pages give of a cluster.
ADDRESSES = ("localhost:9092", "127.0.0.1:9092")
#: The address that pages give of a schema registry.
REGISTRY = "http://localhost:8081"
#: Where pages keep what they write.
DATA = "/data/"
#: How long a block that is a process of its own may take (s): it may start Spark.
TIMEOUT_S = 120.0


class BlockError(AssertionError):
    """A block does not do what its page says."""


class Runner:
    """Runs the blocks of one page, in their order.

    :param page: the file
    :param cluster: in the place of the one that the page names; code that only tests run has it as `cluster`
    :param directory: in the place of `DATA`
    """

    def __init__(self, page: Path, cluster: EmbeddedCluster | KafkaCluster, directory: str) -> None:
        self.page = page
        self.cluster = cluster
        self.directory = directory
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.known = given_names(page)
        self.imports: list[str] = []
        self.printed = io.StringIO()
        self.registry: RegistryStub | None = None
        self.ends = contextlib.ExitStack()

    def run(self) -> None:
        """Run all.

        :raises BlockError: one of them fails
        """
        with self.ends:
            for block in programs(self.page):
                how: Callable[[Block], None] = getattr(self, f"_{block.mode}")
                how(block)
                if block.mode != "file":
                    self.imports += [ast.unparse(node) for node in ast.parse(block.text).body if _is_import(node)]

    def _source(self, block: Block) -> str:
        text = block.text.replace(DATA, f"{self.directory}/")
        for address in ADDRESSES:
            text = text.replace(address, self.cluster.hosts)
        if REGISTRY in text:
            text = text.replace(REGISTRY, self._registry())
        return text

    def _registry(self) -> str:
        """Return the address of a schema registry, which runs until the last block has ended."""
        if self.registry is None:
            from tests.support.registrystub import RegistryStub

            self.registry = RegistryStub()
            self.ends.enter_context(self.registry)
        return self.registry.url

    def _run(self, block: Block) -> None:
        # Tracebacks name the page and its line.
        code = compile("\n" * (block.line - 1) + self._source(block), block.page, "exec")
        if not block.shown:
            self.names.update(printed=self.printed.getvalue(), cluster=self.cluster)
        with contextlib.redirect_stdout(self.printed):
            try:
                exec(code, self.names)
            except SystemExit as error:  # the blocks behind it would not run
                if block.mode != "raises":
                    raise BlockError(f"{block} ends the process with {error.code}") from error
                raise

    def _raises(self, block: Block) -> None:
        try:
            self._run(block)
        except BaseException as error:
            if block.argument not in {cls.__name__ for cls in type(error).__mro__}:
                raise
        else:
            raise BlockError(f"{block} raises no {block.argument}")

    def _compile(self, block: Block) -> None:
        tree = ast.parse(block.text, block.page)
        known = {*self.names, *self.known, *dir(builtins)}
        problems = [*unknown_names(tree, known), *unknown_imports(tree), *unknown_arguments(tree)]
        if problems:
            raise BlockError(f"{block}: {'; '.join(problems)}")
        self.known |= set(bound(tree))

    def _file(self, block: Block) -> None:
        self._compile(block)
        (Path(self.directory) / block.argument).write_text(self._source(block))

    def _program(self, block: Block) -> None:
        self._process(block, self._source(block), sys.executable)

    def _pytest(self, block: Block) -> None:
        source = "\n".join([*self.imports, self._source(block)])
        # Not by descriptors: a JVM of Spark that ends behind pytest holds ours, which are read to their end.
        options = ["-q", "--rootdir=/", "--capture=sys", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
        self._process(block, source, sys.executable, "-m", "pytest", *options)

    def _process(self, block: Block, source: str, *command: str) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "test_page.py"
            path.write_text(source)
            installed = str(write_entry_points(Path(directory) / "installed"))  # pytest finds the plugin by it
            paths = [self.directory, installed, *(path for path in sys.path if path)]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
            ended = subprocess.run(
                [*command, str(path)],
                check=False,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                env=environment,
                stdin=subprocess.DEVNULL,
            )
        self.printed.write(ended.stdout)
        if ended.returncode != 0:
            raise BlockError(f"{block} ended with {ended.returncode}:\n{ended.stdout}\n{ended.stderr}")


def _is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def bound(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a program makes anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (one.asname or one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


def unknown_names(tree: ast.AST, known: set[str]) -> Iterator[str]:
    """Say which names a program uses that neither it nor the page before it makes."""
    made = {*bound(tree), *known}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    yield from (f"nothing is called {name} here" for name in sorted(used - made))


def unknown_imports(tree: ast.AST) -> Iterator[str]:
    """Say which imports fail, of packages that are installed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and installed(node.module):
            module = importlib.import_module(node.module)
            for one in node.names:
                if not hasattr(module, one.name) and importlib.util.find_spec(f"{node.module}.{one.name}") is None:
                    yield f"{node.module} has no {one.name}"
        elif isinstance(node, ast.Import):
            for one in node.names:
                if installed(one.name) and importlib.util.find_spec(one.name) is None:
                    yield f"there is no {one.name}"


def installed(module: str) -> bool:
    """Tell whether a module's package is installed here; this package and Python's own always are."""
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def unknown_arguments(tree: ast.AST) -> Iterator[str]:
    """Say which arguments no constructor or factory of that name takes, and which options Spark's source does not know."""
    from pykafka.spark.optiontable import OPTIONS

    options = {option.name.lower() for option in OPTIONS}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        accepted = parameters(name)
        if accepted:
            yield from (f"{name}() takes no {one.arg}" for one in node.keywords if one.arg and one.arg not in accepted)
        if (
            name == "option"
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and 'format("pykafka")' in spark(node)
        ):
            option = str(node.args[0].value)
            if option.lower() not in {*options, "checkpointlocation"}:
                yield f'format("pykafka") has no option {option}'


def spark(node: ast.AST) -> str:
    """Return a chain of calls as Python has it, with double quotes."""
    return ast.unparse(node).replace("'", '"')


def parameters(name: str) -> set[str]:
    """Return what a constructor or factory of the client accepts; nothing: it is none."""
    if name in pykafka.__all__ and inspect.isclass(getattr(pykafka, name)):
        return set(inspect.signature(getattr(pykafka, name)).parameters)
    factories = {
        "get_producer": pykafka.Producer,
        "get_sync_producer": pykafka.Producer,
        "get_simple_consumer": pykafka.SimpleConsumer,
        "get_balanced_consumer": (pykafka.BalancedConsumer, pykafka.ManagedBalancedConsumer),
    }
    made = factories.get(name)
    if made is None or not hasattr(Topic, name):
        return set()
    classes = made if isinstance(made, tuple) else (made,)
    accepted = {*inspect.signature(getattr(Topic, name)).parameters}
    return accepted.union(*(inspect.signature(cls).parameters for cls in classes))


def cluster_for(page: Path) -> EmbeddedCluster | KafkaCluster:
    """Return the cluster that takes the place of the one that a page names."""
    if not wants_real_cluster(page):
        return EmbeddedCluster()
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    return KafkaCluster(config={"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"})


def main(page: str) -> None:
    """Run one page's programs; what a block raises ends it."""
    path = Path(page).resolve()
    with cluster_for(path) as cluster, tempfile.TemporaryDirectory() as directory:
        runner = Runner(path, cluster, directory)
        ended = False
        try:
            runner.run()
            ended = True
        finally:
            if not ended:
                print(*runner.printed.getvalue().splitlines()[-20:], sep="\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
