"""The end of lost share sessions, and of records that cannot be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from pykafka.common import TopicPartition
from pykafka.exceptions import (
    CorruptResponseError,
    GroupAuthorizationFailed,
    InvalidShareSessionEpoch,
    KafkaException,
    ProtocolClientError,
    SocketDisconnectedError,
)
from pykafka.handlers import ThreadingHandler
from pykafka.protocol import wire
from pykafka.sharegroups import session_worker
from pykafka.sharegroups.acquired_records import AcknowledgeType, AcquiredRecord
from pykafka.sharegroups.session_worker import FINAL_EPOCH, RETRY_PAUSE_S, SessionWorker

KEY, ORDERS = TopicPartition("orders", 0), UUID(int=1)


class Broker:
    """A broker that keeps the requests of a session, and may refuse to end it."""

    id, address, socket_timeout_ms = 0, "127.0.0.1:9092", 1000

    def __init__(self) -> None:
        self.requests: list[Any] = []
        #: How many acknowledgements it refuses.
        self.refuses = 0
        self.refusal: type[ProtocolClientError] = InvalidShareSessionEpoch

    def call(self, request: Any, channel: str, timeout_ms: int = 0) -> Any:
        self.requests.append(request)
        if isinstance(request, wire.ShareFetchRequest):
            return wire.ShareFetchResponse(acquisition_lock_timeout_ms=30_000)
        self.refuses -= 1
        return wire.ShareAcknowledgeResponse(error_code=self.refusal.ERROR_CODE * (self.refuses >= 0))


class Owner:
    """An engine without workers, which keeps what it is told."""

    member_id, listener = "m", None

    def __init__(self) -> None:
        threads = ThreadingHandler()
        self.pauses: list[float] = []
        self.handler = SimpleNamespace(
            random=threads.random,
            Event=threads.Event,
            now=lambda: sum(self.pauses),
            sleep=self.pauses.append,
            spawn=lambda *_, name: None,
            offload=threads.offload,
            breathe=threads.breathe,
        )
        self.lock = threads.Lock()
        self.options = SimpleNamespace(
            group="g",
            fetch_max_wait_ms=100,
            fetch_min_bytes=1,
            fetch_max_bytes=1000,
            max_records=10,
            acquire_mode="batch_optimized",
            unpacked_max_bytes=1000,
        )
        self.errors: list[KafkaException] = []

    def on_acknowledged(self, acquired: Any, error: KafkaException | None) -> None:
        pass

    def on_fetched(self, keys: Any) -> None:
        pass

    def on_leader_lost(self, worker: Any, keys: Any, error: KafkaException) -> None:
        pass

    def failed(self, error: KafkaException) -> None:
        self.errors.append(error)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def worker(broker: Broker) -> SessionWorker:
    engine: Any = Owner()
    node: Any = broker
    worker = SessionWorker(engine, node)
    worker.start()
    return worker


def test_the_next_session_begins_when_the_lost_one_has_ended(worker: SessionWorker, broker: Broker) -> None:
    worker._fetch({KEY: ORDERS}, {})
    worker._lose(SocketDisconnectedError("gone"))
    worker._fetch({KEY: ORDERS}, {})
    assert [request.share_session_epoch for request in broker.requests] == [0, FINAL_EPOCH, 0]


@pytest.mark.parametrize(
    ("refuses", "refusal", "pauses"),
    [
        (2, InvalidShareSessionEpoch, 2),
        (1_000, InvalidShareSessionEpoch, 2),
        (1_000, GroupAuthorizationFailed, 0),  # the next fetch raises it
    ],
    ids=["twice", "for good", "not retriable"],
)
def test_a_refused_end_is_tried_again_within_the_socket_timeout(
    worker: SessionWorker, broker: Broker, refuses: int, refusal: type[ProtocolClientError], pauses: int
) -> None:
    """The broker kept the records of the former session locked: no member got them until their locks ended."""
    worker._fetch({KEY: ORDERS}, {})
    worker._lose(SocketDisconnectedError("gone"))
    broker.refuses, broker.refusal = refuses, refusal
    worker._fetch({KEY: ORDERS}, {})
    owner: Any = worker._engine
    assert owner.pauses == [RETRY_PAUSE_S] * pauses
    assert [request.share_session_epoch for request in broker.requests] == [0, *[FINAL_EPOCH] * (pauses + 1), 0]
    assert not worker._session.may_linger


def test_a_worker_that_stops_does_not_try_again(worker: SessionWorker, broker: Broker) -> None:
    worker._fetch({KEY: ORDERS}, {})
    broker.refuses = 1_000
    worker.stop()
    worker._end_former()
    owner: Any = worker._engine
    assert owner.pauses == []


def test_requests_that_fail_one_after_another_have_a_pause(
    worker: SessionWorker, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that was made and lost at once made the worker go in circles without one."""

    def fail(request: Any, channel: str, timeout_ms: int = 0) -> Any:
        raise SocketDisconnectedError("gone")

    owner: Any = worker._engine
    fetch = session_worker._PlannedRequest({}, {KEY: ORDERS})
    with monkeypatch.context() as broken:
        broken.setattr(broker, "call", fail)
        for _ in range(3):
            worker._send(fetch)
    assert owner.pauses == [RETRY_PAUSE_S] * 2
    worker._send(fetch)
    with monkeypatch.context() as broken:
        broken.setattr(broker, "call", fail)
        worker._send(fetch)
    assert owner.pauses == [RETRY_PAUSE_S] * 2


def test_acknowledgements_end_with_their_session(worker: SessionWorker) -> None:
    owner: Any = worker._engine
    acquired = AcquiredRecord(owner, worker.session_records, KEY, 7, 1, 0.0)
    worker.session_records.add(acquired)
    worker.session_records.acknowledge(acquired, AcknowledgeType.ACCEPT)
    lost = SocketDisconnectedError("gone")
    worker._lose(lost)
    assert worker.session_records.take_due() == {}
    assert acquired.error is lost


def test_records_that_cannot_be_read_are_released(worker: SessionWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_worker, "read", lambda *_: ({}, CorruptResponseError("damaged")))
    kind = wire.ShareFetchResponse.Topic.Partition
    part = kind(partition_index=0, acquired_records=[kind.AcquiredRecords(first_offset=3, last_offset=5)])
    worker._take(KEY, part, 0.0, 30_000)
    assert worker.session_records.take_due()[KEY].batches == [(3, 5, AcknowledgeType.RELEASE)]
    owner: Any = worker._engine
    assert [type(error) for error in owner.errors] == [CorruptResponseError]
