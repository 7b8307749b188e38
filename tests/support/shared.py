"""Clusters that a run of the tests shares: the tests that take one come together, and it is closed after the last of them.

A broker that does nothing takes two hundredths of a core. `make test` runs parts side by side, each with brokers of its own,
and three brokers that wait to the end of a part for nothing cost more than most tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.brokers import KafkaCluster

#: The clusters that few files take, by the names of their fixtures.
SELDOM = ("kafka3", "secure_kafka", "secure")

_open: dict[str, KafkaCluster] = {}
#: The last test that takes a cluster.
_last: dict[str, str] = {}


@contextmanager
def shared(name: str, cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """Open a cluster until the last test that takes it has ended.

    :param name: of its fixture, one of `SELDOM`
    """
    with cluster:
        _open[name] = cluster
        try:
            yield cluster
        finally:
            _open.pop(name, None)


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with the files first that take the clusters of `SELDOM`, one cluster after the other."""
    taken: dict[str, set[str]] = {}
    for item in items:
        taken.setdefault(_file(item), set()).update(_clusters(item))

    def rank(item: pytest.Item) -> tuple[bool, bool, bool]:
        names = taken[_file(item)]
        # First kafka3 alone, then both, then secure_kafka alone: each of them is open at one time.
        return (
            "kafka3" not in names,
            ("kafka3" in names) == ("secure_kafka" in names),
            "secure" not in names,
        )

    return sorted(items, key=rank)


def note_last(items: list[pytest.Item]) -> None:
    """Note which test is the last one to take each cluster.

    :param items: all tests of the run, in their order
    """
    _last.clear()
    for item in items:
        _last.update(dict.fromkeys(_clusters(item), item.nodeid))


def close_after(item: pytest.Item) -> None:
    """Close the clusters that no later test takes."""
    for name in _clusters(item):
        if _last.get(name) == item.nodeid and name in _open:
            _open.pop(name).close()


def _clusters(item: pytest.Item) -> set[str]:
    return set(SELDOM) & set(getattr(item, "fixturenames", ()))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
