"""Signatures, TypedDicts and docs/configuration.md are what `python tools/options.py` makes of the rows of options."""

from __future__ import annotations

import inspect
import re
from types import SimpleNamespace
from typing import Any

import pytest

import pykafka
from pykafka.rdkafka import RdKafkaProducer, RdKafkaSimpleConsumer
from pykafka.utils.option_table import Row, collected
from tools import options

CLASSES: dict[str, Any] = {
    **{name: getattr(pykafka, name) for name in options.OF if name in pykafka.__all__},
    "RdKafkaProducer": RdKafkaProducer,
    "RdKafkaSimpleConsumer": RdKafkaSimpleConsumer,
    "InParallel": pykafka.KafkaConsumer.parallel,
}


def test_all_files_are_up_to_date() -> None:
    stale = [str(path) for path, text in options.made().items() if path.read_text() != text]
    assert stale == [], "run `python tools/options.py`"
    assert options.PAGE.read_text() == options.page(), "run `python tools/options.py`"


@pytest.mark.parametrize("name", [call.cls for call in options.CALLS])
def test_the_defaults_of_rows_are_those_of_signatures(name: str) -> None:
    """Python reads the text that the tool writes as the same value."""
    parameters = inspect.signature(CLASSES[name]).parameters
    rows = options.OF[name].rows()
    assert rows.keys() <= parameters.keys()
    for row in rows.values():
        default = parameters[row.name].default
        assert default is inspect.Parameter.empty or (default, type(default)) == (row.default, type(row.default))


@pytest.mark.parametrize("name", [call.cls for call in options.CALLS if call.cls not in options.BY_HAND])
def test_every_parameter_is_documented(name: str) -> None:
    """Those of the balanced consumers are, there or for `SimpleConsumer`, in the order of the signature."""
    like = options.OF[name].like
    parameters = [one for one in inspect.signature(CLASSES[name]).parameters if one != "self"]
    documented = described(name)
    assert documented == [one for one in parameters if one in documented]
    assert {*parameters} - {*documented} <= {*(described(like) if like else ())}


def described(name: str) -> list[str]:
    return re.findall(r"^:param (\w+): ", inspect.getdoc(CLASSES[name]) or "", re.MULTILINE)


def test_a_new_row_becomes_a_parameter_by_keyword(monkeypatch: pytest.MonkeyPatch) -> None:
    call = options.OF["ShareConsumer"]
    new = Row("linger", "linger", "float | None", None, lambda value, name: value, "how long to linger (s)", "", "")
    rows = {**call.rows(), "linger": new}
    monkeypatch.setattr(options.Call, "rows", lambda self: rows)
    source = (options.PACKAGE / call.path).read_text()
    made = options.with_signature(source, call)
    assert "        linger: float | None = None,\n    ) -> None: ...\n" in made
    assert "    :param linger: how long to linger (s)\n    :raises" in made
    assert len(made.splitlines()) == len(source.splitlines()) + 2


class Made:
    given: Any

    def _build(self, cluster: Any, first: int, given: dict[str, Any]) -> None:
        self.given = (first, given)

    @collected(_build)
    def __init__(self, cluster: Any, first: int, second: int = 2, *, third: int = 3) -> None: ...


CLUSTER = SimpleNamespace(handler=None)


def test_constructors_collect_their_options() -> None:
    assert Made(CLUSTER, 1).given == (1, {"second": 2, "third": 3})
    assert Made(CLUSTER, 1, 5).given == (1, {"second": 5, "third": 3})
    assert Made(CLUSTER, first=1, third=7).given == (1, {"second": 2, "third": 7})
    assert (
        str(inspect.signature(Made))
        == "(cluster: 'Any', first: 'int', second: 'int' = 2, *, third: 'int' = 3) -> 'None'"
    )


@pytest.mark.parametrize(
    ("args", "given", "message"),
    [
        ((), {}, "missing 1 required positional argument: 'first'"),
        ((1, 2, 3), {}, "takes from 3 to 4 positional arguments but 5 were given"),
        ((1,), {"first": 2}, "got multiple values for argument 'first'"),
    ],
)
def test_wrong_arguments_are_refused_in_python_s_words(
    args: tuple[int, ...], given: dict[str, int], message: str
) -> None:
    make: Any = Made
    with pytest.raises(TypeError, match=re.escape(f"Made.__init__() {message}")):
        make(CLUSTER, *args, **given)


def test_unknown_options_are_named() -> None:
    make: Any = Made
    with pytest.raises(TypeError, match=re.escape("Made() has no option thrid; did you mean third?")):
        make(CLUSTER, 1, thrid=3)
