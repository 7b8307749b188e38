"""`Wishes`: what a test asks for by the marker `kafka`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn, Self

import pytest

HELP = (
    'kafka(version="4.4", brokers=3, partitions=4, topics={}, config={}, faults=[], handler="threads"): '
    "the cluster of the fixture kafka_cluster: the release and the number of its brokers; partitions of kafka_topic; topics "
    'to create ({"orders": 4}); configuration of groups and topics ({"cleanup.policy": "compact"}); what goes wrong in the '
    'test function ([("fail", "Produce", "NOT_LEADER_OR_FOLLOWER"), ("stop", 2)]); concurrency of kafka_client'
)
#: What `faults` can name: methods of `FakeCluster`.
FAULTS = (
    *("cut", "fail", "hang_up", "hold", "hold_markers", "isolate", "lag", "latency", "pause", "set_coordinator"),
    *("set_leader", "set_topic_error", "set_versions", "stop", "throttle"),
)
#: What belongs to the cluster, and not to a test of those that share it.
_OF_CLUSTER = ("version", "brokers", "config")


class Wishes(NamedTuple):
    """The arguments of the marker, with their defaults."""

    version: str | None = None
    brokers: int = 3
    partitions: int = 4
    topics: Mapping[str, Any] = {}
    config: Mapping[str, Any] = {}
    faults: Sequence[Sequence[Any]] = ()
    handler: str | None = None

    @classmethod
    def of(cls, node: pytest.Item | pytest.Collector) -> Self:
        """Return what the markers of a test, its class and its module say; the nearest one counts."""
        told: dict[str, Any] = {}
        for mark in reversed(list(node.iter_markers("kafka"))):
            if mark.args:
                refuse(f"takes keyword arguments only, as kafka(version=...): {mark.args[0]!r}")
            told |= mark.kwargs
        for name in told:
            _known(name, cls._fields, "has no argument")
        wishes = cls(**told)
        wishes._check()
        return wishes

    def _check(self) -> None:
        if self.handler not in (None, "threads", "gevent"):
            refuse(f'handler is {self.handler!r}: "threads" or "gevent"')
        if not isinstance(self.version, str | None):
            refuse(f'version is {self.version!r}: text such as "2.8.2"')
        for name in ("topics", "config"):
            if not isinstance(getattr(self, name), Mapping):
                refuse(f"{name} is {getattr(self, name)!r}: a dict by names")
        for name in ("brokers", "partitions"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                refuse(f"{name} is {getattr(self, name)!r}: a whole number from 1 on")
        if not isinstance(self.faults, tuple | list):
            refuse(f"faults is {self.faults!r}: a list of tuples")
        for fault in self.faults:
            if not isinstance(fault, tuple | list) or not fault:
                refuse(f'faults has {fault!r}: each is a tuple such as ("fail", "Produce", "NOT_LEADER_OR_FOLLOWER")')
            _known(fault[0], FAULTS, "has no fault")

    @property
    def of_fake(self) -> str:
        """The name of a wish that a real cluster cannot meet; "" if there is none."""
        names = (*_OF_CLUSTER, "faults")
        return next((name for name in names if getattr(self, name) != self._field_defaults[name]), "")

    def check_cluster(self, made: Wishes) -> None:
        """Refuse wishes that a cluster, which other tests share, was not made by.

        :param made: what it was made by
        """
        for name in _OF_CLUSTER:
            if getattr(self, name) != getattr(made, name):
                refuse(
                    f"{name} is {getattr(self, name)!r}, but other tests share the cluster (kafka_cluster_scope): mark all "
                    f"of them, by the module's pytestmark for instance"
                )


def _known(name: object, names: Sequence[str], problem: str) -> None:
    if name not in names:
        near = get_close_matches(str(name), names, 1)
        refuse(f"{problem} {name!r}: {f'did you mean {near[0]!r}?' if near else 'one of ' + ', '.join(names)}")


def refuse(text: str) -> NoReturn:
    """Fail the test because of its marker, without a traceback."""
    pytest.fail(f"the marker kafka() {text}", pytrace=False)
