"""The channels of one broker: one of each name, all of them ended together, and none that escapes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pykafka.exceptions import ClientClosedError, KafkaException
from pykafka.handlers import Handler
from pykafka.network.channel import Channel, Channels


class Recorder:
    """A channel that notes what is done to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.connected = self.in_trouble = self.is_silent = False
        self.calls: list[Any] = []

    def close(self, reason: KafkaException | None, drain_s: float = 0.0) -> None:
        self.calls.append(("close", reason))

    def abort(self, reason: KafkaException | None) -> None:
        self.calls.append(("abort", reason))

    def drop(self) -> None:
        self.calls.append("drop")

    def forsake(self) -> None:
        self.calls.append("forsake")


@pytest.fixture
def channels(handler: Handler) -> Channels:
    return Channels(handler, lambda name: cast(Channel, Recorder(name)))


def recorder(channels: Channels, name: str) -> Recorder:
    return cast(Recorder, channels.get(name))


def test_one_of_each_name(channels: Channels) -> None:
    assert channels.find("main") is None
    main = channels.get("main")
    assert channels.get("main") is channels.find("main") is main
    assert channels.get("produce") is not main
    assert [name for name, _ in channels] == ["main", "produce"]


def test_reach_grows_with_the_likelihood_of_a_wait(channels: Channels) -> None:
    assert (channels.reach, channels.stands) == (2, False)
    recorder(channels, "produce").in_trouble = True
    assert (channels.reach, channels.stands) == (3, False)
    recorder(channels, "fetch").connected = True
    assert (channels.reach, channels.stands) == (1, True)
    recorder(channels, "main").connected = True
    assert (channels.reach, channels.stands) == (0, True)
    recorder(channels, "main").is_silent = True
    assert (channels.reach, channels.stands) == (3, True)
    assert (channels.is_up("main"), channels.is_up("produce"), channels.is_up("none")) == (True, False, False)


def test_one_that_is_dropped_is_closed_and_made_anew(channels: Channels) -> None:
    first, reason = recorder(channels, "main"), KafkaException("given up")
    channels.drop("main", reason)
    channels.drop("none", reason)
    assert first.calls == [("close", reason)]
    assert recorder(channels, "main") is not first


def test_all_are_ended_for_the_first_reason_and_later_ones_from_the_start(channels: Channels) -> None:
    main, first = recorder(channels, "main"), ClientClosedError("closed")
    channels.drop_connections()
    channels.end(first)
    channels.end(KafkaException("another"))
    assert channels.ended is first
    channels.abort()
    channels.close()
    channels.forsake()
    assert main.calls == ["drop", ("abort", first), ("close", first), "forsake"]
    assert recorder(channels, "late").calls == [("close", first)]


class EndedMeanwhile(Channels):
    """Channels that another worker ends while one is being made, between any two steps of that."""

    steps = 0
    end_at = 0

    @property
    def ended(self) -> KafkaException | None:
        found = self.__dict__.get("ended")
        self.steps += 1
        if self.steps == self.end_at:
            self.__dict__["ended"] = ClientClosedError("closed")
            self.abort()
        return found

    @ended.setter
    def ended(self, reason: KafkaException | None) -> None:
        self.__dict__["ended"] = reason


def test_one_that_is_made_while_all_are_ended_is_ended_too(handler: Handler) -> None:
    """`abort` and `forsake` take no lock: they may come between the look at `ended` and the entry in the dict."""
    channels = EndedMeanwhile(handler, lambda name: cast(Channel, Recorder(name)))
    channels.end_at = 1
    assert recorder(channels, "main").calls != []


def test_a_forked_child_begins_without_any_and_touches_none(channels: Channels) -> None:
    parents = recorder(channels, "main")
    channels._lock.acquire()  # by a worker that the child has not got
    channels.after_fork()
    assert recorder(channels, "main") is not parents
    assert parents.calls == []
