"""Listeners of rebalances: which objects serve as one, and what is called on them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.common import TopicPartition
from pykafka.groups.listener import Listeners, RebalanceListener, valid_listener

KEYS = [TopicPartition("a", 0)]


class Recorder(RebalanceListener):
    def __init__(self) -> None:
        self.told: list[tuple[str, list[TopicPartition]]] = []

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("revoked", partitions))


def test_a_listener_may_have_what_it_needs() -> None:
    listener = Recorder()
    assert valid_listener(listener, "listener") is listener
    both: Any = Listeners(listener)
    both.on_assigned(KEYS)
    both.on_revoked(KEYS)
    both.on_lost(KEYS)  # as in the Java client, it is also revoked
    assert listener.told == [("revoked", KEYS)] * 2


@pytest.mark.parametrize("name", ["on_revoked", "on_assigned", "on_lost"])
def test_any_object_with_one_of_the_methods_serves(name: str) -> None:
    told: list[Any] = []
    plain = valid_listener(SimpleNamespace(**{name: told.append}), "listener")
    all_three = Listeners(plain)
    for method in (all_three.on_revoked, all_three.on_assigned, all_three.on_lost):
        if method is not None:
            method(KEYS)
    assert told == [KEYS] * (2 if name == "on_revoked" else 1)


def test_no_listener() -> None:
    assert valid_listener(None, "listener") is None
    nothing = Listeners(None)
    assert (nothing.on_revoked, nothing.on_assigned, nothing.on_lost) == (None, None, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Recorder, r"listener must be an object: give Recorder\(\), not the class Recorder"),
        (print, "listener must have one at least of on_revoked, on_assigned, on_lost, not builtin_function_or_method"),
        (SimpleNamespace(on_lost=3), "listener.on_lost must be a method, not int: 3"),
    ],
)
def test_what_is_no_listener_is_refused(value: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        valid_listener(value, "listener")
