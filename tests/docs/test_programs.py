"""Each Python block of README.md and docs/*.md does what its page says; tests/docs/pages.py has the conventions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka.embedded import EmbeddedCluster
from tests.docs.pages import PAGES, ROOT, PageError, programs, wants_real_cluster
from tests.docs.running import BlockError, Runner, unknown_arguments
from tests.support.programs import run

#: Pages whose programs use a session of Spark take longer, and need Java.
SPARK = (pytest.mark.spark, pytest.mark.slow)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def runnable() -> Iterator[Any]:
    for path in PAGES:
        blocks = programs(path)
        uses_spark = any("SparkSession" in block.text and block.mode != "compile" for block in blocks)
        marks = [*(SPARK if uses_spark else ()), *([pytest.mark.kafka] if wants_real_cluster(path) else ())]
        if blocks:
            yield pytest.param(path, id=name_of(path), marks=marks)


@pytest.fixture(autouse=True)
def _quick_spark(request: pytest.FixtureRequest) -> None:
    """Make the JVM of a page's Spark start quickly."""
    if request.node.get_closest_marker("spark") is not None:
        request.getfixturevalue("quick_spark")


@pytest.mark.parametrize("path", list(runnable()))
def test_programs_of_a_page(path: Path) -> None:
    status, output = run("tests.docs.running", str(path), timeout=200)
    assert status == 0, output


def test_what_only_compiles_is_seldom() -> None:
    # tests/examples runs the programs of this page
    pages = [path for path in PAGES if path.name != "comparison.md"]
    blocks = [block for path in pages for block in programs(path) if block.shown]
    compiled = [block for block in blocks if block.mode == "compile"]
    assert len(compiled) * 5 <= len(blocks), f"only compiled: {', '.join(map(str, compiled))}"


# -- the mechanism itself --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as found:
        yield found


@pytest.fixture
def page(tmp_path: Path, cluster: EmbeddedCluster) -> Callable[[str], Runner]:
    def make(text: str) -> Runner:
        (tmp_path / "page.md").write_text(text)
        return Runner(tmp_path / "page.md", cluster, str(tmp_path))

    return make


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```python\nx = 1\n```\n```python\nassert x == 2\n```\n", "^$"),
        ("<!-- test: raises KeyError -->\n```python\n{}.get(1)\n```\n", "page\\.md:3 raises no KeyError"),
        ("<!-- not run: no server -->\n\n```python\nprint(nowhere)\n```\n", "nothing is called nowhere"),
        ("<!-- not run: x -->\n```python\nfrom pykafka import Nothing\n```\n", "pykafka has no Nothing"),
        ("<!-- not run: x -->\n```python\nimport pykafka.nothing\n```\n", "there is no pykafka.nothing"),
        ("<!-- not run: x -->\n```python\nstr.get_producer(linger_mss=5)\n```\n", "takes no linger_mss"),
        ("<!-- test: program -->\n```python\nraise SystemExit(3)\n```\n", "ended with 3"),
        ("<!-- test: pytest -->\n```python\ndef test_it():\n    assert not 1\n```\n", "ended with 1"),
        ("```python\nprint('a')\n```\n<!-- test-code\nassert printed == 'b\\n'\n-->\n", "^$"),
    ],
)
def test_a_block_that_is_wrong_fails(page: Callable[[str], Runner], text: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        page(text).run()


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = 1\n```\n<!-- test: raises KeyError -->\n```python\n{}[x]\n```\n",
        "<!-- given: client, spark -->\n<!-- not run: x -->\n```python\nclient.close()\n```\n",
        "<!-- test: pytest -->\n```python\ndef test_it():\n    assert 1\n```\n",
        "```python\nprint('a')\n```\n<!-- test-code\nassert printed == 'a\\n'\n-->\n",
        "1. in a list:\n\n   ```python\n   if True:\n       x = 1\n   ```\n",
    ],
)
def test_a_block_that_is_right_runs(page: Callable[[str], Runner], text: str) -> None:
    page(text).run()


@pytest.mark.parametrize("comment", ["test: compile", "test", "not run", "not run: "])
def test_a_comment_that_means_nothing_is_refused(page: Callable[[str], Runner], comment: str) -> None:
    with pytest.raises(PageError):
        page(f"<!-- {comment} -->\n\n```python\nx = 1\n```\n").run()


def test_options_of_spark_are_checked() -> None:
    code = 'spark.read.format("pykafka").option("subscribe", "a").option("subscribes", "b").load()'
    assert list(unknown_arguments(ast.parse(code))) == ['format("pykafka") has no option subscribes']


def test_a_failing_block_names_its_place(page: Callable[[str], Runner]) -> None:
    with pytest.raises(BlockError, match=r"page\.md:4: nothing is called nowhere"):
        page("# Title\n<!-- not run: x -->\n```python\nnowhere\n```\n").run()
