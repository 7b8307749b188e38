"""The heartbeats of many members over one connection: against a coordinator of the test's, which can hang and hang up."""

from __future__ import annotations

import socket
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from pykafka.broker import Broker
from pykafka.exceptions import GroupAuthorizationFailed, GroupCoordinatorNotAvailable, NotCoordinatorForGroup
from pykafka.groups.classic.heartbeat import ClassicHeartbeats, HeartbeatTarget, Report
from pykafka.groups.heartbeat_sender import Activity, Heartbeat
from pykafka.groups.heartbeat_thread import HeartbeatThread
from pykafka.handlers import Handler
from pykafka.metrics.flight_recorder import FlightRecorder
from pykafka.metrics.listener import CONNECTED, DISCONNECTED, UNREACHABLE
from pykafka.metrics.recorder import Recorder
from pykafka.protocol import wire
from tests.support.inside import worker_of
from tests.support.waiting import until

#: The beginning of an answer to a heartbeat of version 1, before the error code.
NOT_THROTTLED = b"\0\0\0\0"


class Coordinator:
    """A broker that answers each request alike; `hangs` stops that, and `cut` ends its connections."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.accepted: list[socket.socket] = []
        self.asked = 0
        self.hangs = False
        #: The error code of each answer.
        self.code = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.accepted.append(connection)
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection.makefile("rb") as requests:
            while head := requests.read(4):
                frame = requests.read(int.from_bytes(head, "big"))
                self.asked += 1
                if not self.hangs:
                    answer = frame[4:8] + NOT_THROTTLED + self.code.to_bytes(2, "big")
                    connection.sendall(len(answer).to_bytes(4, "big") + answer)

    def cut(self) -> None:
        for connection in self.accepted:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):  # which wakes `accept`
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()
        for connection in self.accepted:
            connection.close()
        self._thread.join(5)


@pytest.fixture
def coordinators() -> Iterator[tuple[Coordinator, Coordinator]]:
    """Yield two coordinators."""
    one, two = Coordinator(), Coordinator()
    yield one, two
    one.close()
    two.close()


def broker_of(handler: Handler, coordinator: Coordinator, timeout_ms: int = 5000) -> Broker:
    return Broker(1, "127.0.0.1", coordinator.port, handler, timeout_ms, timeout_ms)


def member(handler: Handler, interval_ms: int = 100, session_ms: int = 1000) -> ClassicHeartbeats:
    clock = handler.native.now
    timer = Heartbeat(session_timeout_ms=session_ms, heartbeat_interval_ms=interval_ms, clock=clock)
    return ClassicHeartbeats(handler, timer, Activity(), 300_000, lambda: None)


def beat(broker: Broker, number: int = 0) -> HeartbeatTarget:
    return HeartbeatTarget(broker, "g", 1, f"m{number}", None, 1, 1)


def test_members_share_a_thread_and_a_connection(
    handler: Handler, coordinators: tuple[Coordinator, Coordinator]
) -> None:
    one, _ = coordinators
    broker = broker_of(handler, one)
    members = [member(handler) for _ in range(50)]
    for number, sender in enumerate(members):
        sender.set_target(beat(broker, number))
    until(handler, lambda: one.asked > 3 * len(members))
    assert len(one.accepted) == 1
    assert len(HeartbeatThread.at(broker, handler)) == 50
    assert not any(sender.reports for sender in members)
    assert not any(sender.heartbeat.session_expired() for sender in members)
    for sender in members[1:]:
        sender.stop()
    assert members[0].is_alive
    worker = worker_of(HeartbeatThread.at(broker, handler))
    members[0].stop()
    assert not worker.is_alive()
    asked = one.asked
    members[0].set_target(beat(broker))  # it begins again
    until(handler, lambda: one.asked > asked)
    assert len(one.accepted) == 2
    broker.close()
    assert [sender.is_alive for sender in members[:1]] == [False]
    assert [news.code for news in members[0].reports] == [0]


def test_a_connection_that_never_stood_does_not_end(
    handler: Handler, coordinators: tuple[Coordinator, Coordinator]
) -> None:
    one, _ = coordinators
    listener = Recorder(handler, FlightRecorder(handler, "c", 1024 * 1024))
    broker = broker_of(handler, one)
    broker.listener = listener

    def count(kind: str) -> int:
        part = listener.connections[1, "heartbeat"]
        return part.events[kind].count if kind in part.events else 0

    sender = member(handler)
    sender.set_target(beat(broker))
    until(handler, lambda: one.asked > 2)
    assert (count(CONNECTED), broker.connection_count) == (1, 1)
    one.close()
    until(handler, lambda: count(UNREACHABLE) >= 2)
    assert (count(CONNECTED), count(DISCONNECTED), broker.connection_count) == (1, 1, 0)
    sender.stop()
    broker.close()
    api = listener.connections[1, "heartbeat"].apis[wire.HeartbeatRequest]
    assert api.sent.count >= api.received.count > 2
    assert api.received.total == 14 * api.received.count  # with the length before each


def test_a_connection_that_breaks_is_made_anew_once_for_all(
    handler: Handler, coordinators: tuple[Coordinator, Coordinator]
) -> None:
    one, _ = coordinators
    broker = broker_of(handler, one)
    members = [member(handler) for _ in range(20)]
    for number, sender in enumerate(members):
        sender.set_target(beat(broker, number))
    until(handler, lambda: one.asked > 40)
    one.hangs = True
    asked = one.asked
    until(handler, lambda: one.asked > asked)
    one.cut()
    one.hangs = False
    until(handler, lambda: len(one.accepted) == 2)
    asked = one.asked
    until(handler, lambda: one.asked > asked + 60)
    assert len(one.accepted) == 2
    # those that waited for an answer are told, and none of them twice
    assert any(sender.reports for sender in members)
    assert all(len(sender.reports) <= 1 for sender in members)
    for sender in members:
        sender.stop()


def test_a_coordinator_that_hangs_holds_up_its_own_groups_only(
    handler: Handler, coordinators: tuple[Coordinator, Coordinator]
) -> None:
    one, two = coordinators
    one.hangs = True
    hung, well = member(handler), member(handler)
    hung.set_target(beat(broker_of(handler, one)))
    until(handler, lambda: one.asked > 0)
    well.set_target(beat(broker_of(handler, two)))
    until(handler, lambda: two.asked > 10)
    assert not well.reports
    assert not well.heartbeat.session_expired()
    until(handler, lambda: bool(hung.reports))  # after its session
    assert "no answer to a heartbeat in time" in str(hung.reports[0].error)
    # also the last member of one that hangs ends at once
    until(handler, lambda: len(one.accepted) > 1)
    began = handler.now()
    hung.stop()
    assert handler.now() - began < 1
    well.stop()


def test_a_member_whose_consumer_is_gone_leaves_alone(
    handler: Handler, coordinators: tuple[Coordinator, Coordinator]
) -> None:
    one, _ = coordinators
    broker = broker_of(handler, one)

    class Consumer:
        poll_count = 0

        def request_poll(self) -> None:
            """Take note."""

        def wake(self) -> None:
            """Wake up."""

    consumer: Any = Consumer()
    dropped, stays = member(handler), member(handler)
    dropped.hooks = weakref.ref(consumer)
    dropped.set_target(beat(broker, 1))
    stays.set_target(beat(broker, 2))
    until(handler, lambda: one.asked > 4)
    del consumer
    pulse = HeartbeatThread.at(broker, handler)
    until(handler, lambda: len(pulse) == 1)
    assert [news.idle for news in dropped.reports] == [True]
    stays.stop()


def test_a_thread_that_was_interrupted_while_it_was_started_goes_on(
    handler: Handler, coordinators: tuple[Coordinator, Coordinator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the start of the thread and the note of it: the group lost a member that sent nothing."""
    one, _ = coordinators
    broker = broker_of(handler, one)
    native = handler.native
    spawn, lost = native.spawn, []

    def interrupted(*args: Any, **options: Any) -> None:
        lost.append(spawn(*args, **options))
        until(handler, lambda: one.asked)
        raise KeyboardInterrupt

    sender = member(handler)
    with monkeypatch.context() as patch:
        patch.setattr(native, "spawn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sender.set_target(beat(broker))
    until(handler, lambda: one.asked > 2)
    sender.set_target(beat(broker))
    sender.stop()
    assert len(lost) == 1
    assert not lost[0].is_alive()


def test_a_thread_that_an_interrupt_has_kept_from_starting_is_started_by_the_next_call(
    handler: Handler, coordinators: tuple[Coordinator, Coordinator], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = coordinators
    broker, sender = broker_of(handler, one), member(handler)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(handler.native, "spawn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sender.set_target(beat(broker))
    sender.set_target(beat(broker))
    until(handler, lambda: one.asked > 2)
    sender.stop()


@pytest.mark.parametrize("code", [GroupAuthorizationFailed.ERROR_CODE, NotCoordinatorForGroup.ERROR_CODE, None])
def test_heartbeats_that_are_refused_for_longer_than_the_session_are_told_once(
    handler: Handler, coordinators: tuple[Coordinator, Coordinator], code: int | None
) -> None:
    one, _ = coordinators
    sender = member(handler, interval_ms=50, session_ms=500)
    broker = broker_of(handler, one, timeout_ms=200)
    sender.set_target(beat(broker))
    until(handler, lambda: one.asked > 3)

    def refuse() -> None:
        one.code, one.hangs = code or 0, code is None

    def overdue() -> list[Report]:
        return [news for news in sender.reports if news.overdue]

    refuse()
    until(handler, overdue)
    assert sender.heartbeat.session_expired()
    asked = one.asked
    until(handler, lambda: one.asked > asked + 4)
    (news,) = overdue()
    assert news.code == (code or 0)
    assert (news.error is None) == (code is not None)
    one.code, one.hangs = 0, False
    until(handler, lambda: not sender.heartbeat.session_expired())
    refuse()
    until(handler, lambda: len(overdue()) == 2)  # another time
    sender.stop()
    broker.close()


@pytest.mark.parametrize("code", [NotCoordinatorForGroup.ERROR_CODE, GroupCoordinatorNotAvailable.ERROR_CODE, None])
def test_a_lost_coordinator_is_reported_until_another_is_found(
    handler: Handler, coordinators: tuple[Coordinator, Coordinator], code: int | None
) -> None:
    """Also if the session is over with the first such answer, and if the first look-up has found no other coordinator."""
    one, _ = coordinators
    sender = member(handler, interval_ms=50, session_ms=500)
    broker = broker_of(handler, one, timeout_ms=200)
    one.code, one.hangs = code or 0, code is None
    sender.heartbeat.last_receive = sender.heartbeat.last_reset = sender.heartbeat.last_send = -10.0
    sender.set_target(beat(broker), restart=False)

    def lost() -> list[Report]:
        return [report for report in sender.reports if report.code == (code or 0) and not report.overdue]

    def asked_again(before: int) -> bool:
        return one.asked > before + 2

    for _ in range(3):
        until(handler, lost)
        until(handler, partial(asked_again, one.asked))
        assert len(lost()) == 1  # no more than the application has to read
        sender.reports.clear()
    sender.stop()
    broker.close()
