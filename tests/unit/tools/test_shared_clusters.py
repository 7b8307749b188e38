"""Shared clusters: the tests that take one come together, and it is closed after the last of them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support import shared


class Cluster(AbstractContextManager["Cluster"]):
    """A cluster that counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    def __exit__(self, *_: object) -> None:
        self.close()


def items_of(**clusters: str) -> list[pytest.Item]:
    """Return two tests a file, of which the second one takes clusters.

    :param clusters: names of fixtures by file
    """
    made = [
        SimpleNamespace(nodeid=f"{file}.py::{name}", fixturenames=names.split() if name == "test_b" else [])
        for file, names in clusters.items()
        for name in ("test_a", "test_b")
    ]
    return cast(list[pytest.Item], made)


@pytest.fixture(autouse=True)
def _of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the clusters of this run alone."""
    monkeypatch.setattr(shared, "_open", {})
    monkeypatch.setattr(shared, "_last", {})


def test_files_that_take_a_cluster_come_together_and_stay_whole() -> None:
    items = items_of(
        a="kafka", b="secure", c="kafka kafka3", d="secure_kafka", e="", f="kafka3 secure_kafka", g="kafka3", h="secure"
    )
    order = [item.nodeid for item in shared.in_order(items)]
    assert order == [f"{file}.py::{name}" for file in "cgfdbhae" for name in ("test_a", "test_b")]


def test_a_cluster_is_closed_after_the_last_test_that_takes_it() -> None:
    items = items_of(a="kafka3", b="kafka3 secure", c="kafka")
    shared.note_last(items)
    clusters = {name: Cluster() for name in ("kafka3", "secure")}
    closed = []
    for item in items:
        for name, cluster in clusters.items():
            if item.nodeid == ("a.py::test_b" if name == "kafka3" else "b.py::test_b"):
                opened = shared.shared(name, cast(Any, cluster))
                opened.__enter__()
        shared.close_after(item)
        closed.append([cluster.closed for cluster in clusters.values()])
    assert closed == [[0, 0]] * 3 + [[1, 1]] * 3


def test_a_cluster_is_closed_at_the_end_as_well() -> None:
    cluster = Cluster()
    with shared.shared("kafka3", cast(Any, cluster)) as taken:
        assert cast(Any, taken) is cluster
    assert cluster.closed == 1
