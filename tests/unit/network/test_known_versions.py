"""The known versions of a broker through cut connections, upgrades, and answers that look like 0.8.2."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient, broker
from pykafka.exceptions import IdempotenceLostError, MessagesNotDelivered, SocketDisconnectedError, UnsupportedVersion
from pykafka.handlers import Handler
from pykafka.network import api_versions, known_versions
from pykafka.network.known_versions import HANG_UPS_BESIDE_NEWER, KnownVersions
from pykafka.protocol import wire
from pykafka.protocol.records import scan
from pykafka.protocol.versions import HANG_UPS, RANGES_0_8_2
from tests.support import scripted
from tests.support.scripted import TOPIC, ScriptedBroker
from tests.support.waiting import until


class Changeling(ScriptedBroker):
    """A broker that may hang up on whoever asks for its versions, or any more, and tells what was produced.

    :param looks_old: whether it answers what 0.8.2 answers, and hangs up on everything else
    """

    def __init__(self, looks_old: bool = False) -> None:
        super().__init__(damage=lambda cls, frame: None if self.hangs_up(cls) else frame)
        self.looks_old = looks_old
        #: How many of the next questions for versions are answered by hanging up.
        self.hang_ups = 0
        self.asked = 0
        #: Of each batch: the producer id and the first number; -1 without.
        self.produced: list[tuple[int, int]] = []
        #: Gives producer ids and their epochs.
        self.give_id: Callable[[], tuple[int, int]] = lambda: (7, 0)
        #: {API key: range, or None to leave it out}: what it says instead of the truth, so many times.
        self.lie: dict[int, tuple[int, int] | None] = {}
        self.lies = 0
        #: Other brokers that it names: {id: hosts}.
        self.others: dict[int, str] = {}

    def hangs_up(self, cls: type[Any]) -> bool:
        """Return whether to hang up instead of answering a request of this class."""
        if cls is not wire.ApiVersionsRequest:
            return False
        self.asked += 1
        self.hang_ups -= 1
        return self.looks_old or self.hang_ups >= 0

    def cut(self) -> None:
        """Close the connections that there are."""
        for connection in self._connections:
            try:
                connection.shutdown(2)
            except OSError:  # the client was first
                continue

    def _metadata(self) -> wire.MetadataResponse:
        answer = super()._metadata()
        for id_, hosts in self.others.items():
            host, port = hosts.split(":")
            answer.brokers.append(wire.MetadataResponse.Broker(node_id=id_, host=host, port=int(port)))
        return answer

    def _respond(self, request: Any) -> Any:
        if isinstance(request, wire.ApiVersionsRequest) and self.lies > 0:
            return self._lying(super()._respond(request))
        if isinstance(request, wire.ListOffsetsRequest) and self.looks_old:
            kind = wire.ListOffsetsResponse.Topic
            return wire.ListOffsetsResponse(
                topics=[kind(name=TOPIC, partitions=[kind.Partition(partition_index=0, old_style_offsets=[0])])]
            )
        if isinstance(request, wire.InitProducerIdRequest):
            id_, epoch = self.give_id()
            return wire.InitProducerIdResponse(producer_id=id_, producer_epoch=epoch)
        if isinstance(request, wire.ProduceRequest):
            records = request.topic_data[0].partition_data[0].records
            for raw in scan(records)[0]:
                sequence = int.from_bytes(bytes(records[raw.start + 53 : raw.start + 57]), "big", signed=True)
                self.produced.append((raw.producer_id, sequence) if raw.magic == 2 else (-1, -1))
        return super()._respond(request)

    def _lying(self, answer: wire.ApiVersionsResponse) -> wire.ApiVersionsResponse:
        self.lies -= 1
        keys = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys} | self.lie
        answer.api_keys = [
            wire.ApiVersionsResponse.ApiVersion(api_key=key, min_version=known[0], max_version=known[1])
            for key, known in keys.items()
            if known is not None
        ]
        return answer


@pytest.fixture(autouse=True)
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[Any, int]:
    """Return what scripted brokers speak; producer ids, too."""
    monkeypatch.setitem(scripted.VERSIONS, wire.InitProducerIdRequest, 0)
    monkeypatch.setattr(api_versions, "EVIDENCE_PAUSE_S", 0.05)
    monkeypatch.setattr(known_versions, "_hints", set())
    return scripted.VERSIONS


@pytest.fixture
def peer() -> Iterator[Changeling]:
    made = Changeling()
    with made:
        yield made


@pytest.fixture
def old() -> Iterator[Changeling]:
    made = Changeling(looks_old=True)
    with made:
        yield made


def client_of(peer: Changeling, handler: Handler, **kwargs: Any) -> KafkaClient:
    return KafkaClient(peer.hosts, handler=handler, socket_timeout_ms=10_000, **kwargs)


def warnings(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING and text in one.getMessage()]


def test_a_broker_that_hangs_up_twice_after_the_bootstrap_is_no_0_8(peer: Changeling, handler: Handler) -> None:
    """It was taken for 0.8.2: no timestamps, headers and numbers any more, and messages stored twice."""
    with client_of(peer, handler) as client:
        peer.hang_ups = 2
        with client.topics[TOPIC].get_producer(linger_ms=0, required_acks=-1) as producer:
            for _ in range(3):
                producer.produce(b"x", timestamp=1_600_000_000_000, headers={"a": b"b"})
                producer.flush()
        assert client.brokers[1].api_ranges()[wire.ProduceRequest.api_key] == (0, 7)
    assert peer.produced == [(7, 0), (7, 1), (7, 2)]


def test_what_was_known_outlives_all_connections(peer: Changeling, handler: Handler) -> None:
    with client_of(peer, handler) as client:
        node = client.brokers[1]
        node.connect()
        known = node.api_ranges()
        peer.looks_old = True
        for _ in range(3):
            peer.cut()
            until(handler, lambda: not node.connected)
            with pytest.raises(SocketDisconnectedError):
                node.call(wire.MetadataRequest(topics=[]))
        assert node.api_ranges() == known
        peer.looks_old = False
        until(handler, lambda: _answers(node))
        assert node.api_ranges() == known


def _answers(node: broker.Broker) -> bool:
    try:
        return bool(node.call(wire.MetadataRequest(topics=[])).brokers)
    except SocketDisconnectedError:
        return False


def test_another_version_at_the_same_address_is_noticed(
    peer: Changeling, handler: Handler, versions: dict[Any, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with client_of(peer, handler) as client:
        node = client.brokers[1]
        node.connect()
        for highest in (3, 5):
            monkeypatch.setitem(versions, wire.ProduceRequest, highest)
            peer.cut()
            until(handler, lambda: not node.connected)
            assert node.call(wire.MetadataRequest(topics=[])).brokers
            assert node.api_version(wire.ProduceRequest) == highest


def test_a_version_chosen_before_the_broker_was_replaced_is_not_sent(
    peer: Changeling, handler: Handler, versions: dict[Any, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with client_of(peer, handler) as client:
        node = client.brokers[1]
        node.connect()
        version = node.api_version(wire.FetchRequest)
        monkeypatch.setitem(versions, wire.FetchRequest, 4)
        peer.cut()
        until(handler, lambda: not node.connected)
        with pytest.raises(SocketDisconnectedError, match="does not speak version 10"):
            node.send(wire.FetchRequest(topics=[]), version=version)


def test_0_8_is_told_once_and_asked_again(
    old: Changeling, handler: Handler, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_versions, "ASK_AGAIN_S", 0.2)
    with client_of(old, handler) as client:
        node = client.brokers[1]
        assert node.api_ranges() is RANGES_0_8_2
        assert old.asked >= 2 + HANG_UPS
        asked = old.asked
        until(handler, lambda: node.api_ranges() is RANGES_0_8_2 and old.asked > asked)
        assert len(warnings(caplog, "taken for Kafka 0.8.2")) == 1
        old.looks_old = False
        until(handler, lambda: node.api_ranges() is not RANGES_0_8_2)
        assert len(warnings(caplog, "newer than Kafka 0.8.2 after all")) == 1


def test_a_hint_saves_the_search(old: Changeling, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    with client_of(old, handler, broker_version="0.8.2") as client:
        assert client.brokers[1].api_ranges() is RANGES_0_8_2
    assert old.asked == 6  # three each for the address and the broker
    assert not warnings(caplog, "taken for Kafka 0.8.2")


def test_beside_newer_brokers_only_what_repeats_itself_counts(
    peer: Changeling, old: Changeling, handler: Handler
) -> None:
    peer.others = {2: old.hosts}
    with client_of(peer, handler) as client:
        assert client.brokers[2].api_ranges() is RANGES_0_8_2
        assert old.asked == 4 + HANG_UPS_BESIDE_NEWER
        assert client.brokers[1].api_ranges() is not RANGES_0_8_2


def test_newer_brokers_are_known_by_number_and_by_address() -> None:
    known = KnownVersions()
    assert known.hang_ups(1, "a:1") == HANG_UPS
    known.learn(-1, "balancer:1", {0: (0, 9)})
    assert known.hang_ups(-1, "balancer:1") is None
    assert known.hang_ups(1, "a:1") == HANG_UPS_BESIDE_NEWER
    known.learn(1, "a:1", {0: (0, 9)})
    assert known.hang_ups(1, "elsewhere:1") is None
    assert known.hang_ups(2, "a:1") is None
    assert known.hang_ups(2, "b:1") == HANG_UPS_BESIDE_NEWER


def test_a_producer_numbers_once_its_broker_turns_out_to_be_newer(
    old: Changeling, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_versions, "ASK_AGAIN_S", 0.2)
    with (
        client_of(old, handler) as client,
        client.topics[TOPIC].get_producer(linger_ms=0, required_acks=-1) as producer,
    ):
        producer.produce(b"x")
        producer.flush()
        assert old.produced == [(-1, -1)]
        old.looks_old = False
        handler.sleep(0.3)
        for _ in range(3):
            producer.produce(b"x")
            producer.flush()
    assert old.produced[-2:] == [(7, old.produced[-2][1]), (7, old.produced[-2][1] + 1)]


@pytest.mark.parametrize("is_idle", [True, False])
def test_a_consumer_fetches_in_newer_versions_once_its_broker_turns_out_to_be_newer(
    old: Changeling, handler: Handler, monkeypatch: pytest.MonkeyPatch, is_idle: bool
) -> None:
    """Its worker asks for the version of each request, also if it asks for the same partitions again and again."""
    monkeypatch.setattr(api_versions, "ASK_AGAIN_S", 0.2)
    fetched: list[int] = []

    def note(key: int, version: int) -> bool:
        if key == wire.FetchRequest.api_key:
            fetched.append(version)
        return False

    old.closes_on = note
    with client_of(old, handler) as client:
        with client.topics[TOPIC].get_simple_consumer(fetch_wait_max_ms=20, consumer_timeout_ms=10_000) as consumer:
            until(handler, lambda: len(fetched) >= 3)
            assert set(fetched) == {0}
            old.looks_old = False
            until(handler, lambda: max(fetched) > 0)
            newest = scripted.VERSIONS[wire.FetchRequest]
            until(handler, lambda: fetched[-1] == newest)
            if not is_idle:
                old.records = scripted.batch([b"x"])
                message = consumer.consume()
                assert message is not None
                assert message.value == b"x"
            del fetched[:]
            until(handler, lambda: len(fetched) >= 3)
            assert set(fetched) == {newest}


def test_what_follows_on_numbers_never_goes_without(
    peer: Changeling, handler: Handler, versions: dict[Any, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stored twice, silently: brokers know no batch without a number again."""
    with client_of(peer, handler) as client:
        producer = client.topics[TOPIC].get_producer(
            linger_ms=0, required_acks=-1, delivery_timeout_ms=1500, pending_timeout_ms=10_000
        )
        producer.produce(b"x")
        producer.flush()
        monkeypatch.delitem(versions, wire.InitProducerIdRequest)
        monkeypatch.setitem(versions, wire.ProduceRequest, 2)
        peer.cut()
        until(handler, lambda: not _is_up(client))
        producer.produce(b"y")
        with pytest.raises(MessagesNotDelivered) as caught:
            producer.stop()
    ((_, error),) = caught.value.failures
    assert isinstance(error, IdempotenceLostError)
    assert peer.produced == [(7, 0)]


def _is_up(client: KafkaClient) -> bool:
    return client.brokers[1].channel("produce").connected


@pytest.mark.parametrize(
    "lie",
    [
        {wire.ProduceRequest.api_key: (200, 210)},
        {wire.ProduceRequest.api_key: None},
        {wire.ProduceRequest.api_key: (7, 2)},
        {wire.InitProducerIdRequest.api_key: None},
        {wire.ApiVersionsRequest.api_key: None},
    ],
    ids=["above ours", "left out", "upside down", "no producer ids", "itself left out"],
)
def test_what_a_broker_says_once_in_error_does_not_stay(
    peer: Changeling, handler: Handler, lie: dict[int, tuple[int, int] | None]
) -> None:
    """A damaged answer was believed: nothing could be produced, or only without numbers, until a connection was lost."""
    with client_of(peer, handler) as client:
        peer.lie, peer.lies = lie, 1
        client.brokers[1].forget_versions()
        with client.topics[TOPIC].get_producer(linger_ms=0, required_acks=-1) as producer:
            for _ in range(3):
                producer.produce(b"x", headers={"a": b"b"})
                producer.flush()
        assert peer.lies == 0
    assert peer.produced == [(7, 0), (7, 1), (7, 2)]


def test_what_a_broker_says_twice_is_believed(peer: Changeling, handler: Handler) -> None:
    with client_of(peer, handler) as client:
        node = client.brokers[1]
        asked = peer.asked
        peer.lie, peer.lies = {wire.FetchRequest.api_key: None, wire.InitProducerIdRequest.api_key: None}, 1000
        node.forget_versions()
        for _ in range(5):
            with pytest.raises(UnsupportedVersion, match="does not have it"):
                node.api_version(wire.FetchRequest)
            assert not node.has(wire.InitProducerIdRequest)
            assert node.has(wire.ProduceRequest)
        assert peer.asked <= asked + 4  # two questions, of which the first is refused for its version


@pytest.mark.parametrize("given", [(-5, 0), (7, -1)])
def test_a_producer_id_that_none_has_is_not_taken(peer: Changeling, handler: Handler, given: tuple[int, int]) -> None:
    """Brokers store batches under a negative one as such without numbers, as often as they are sent."""
    ids = [given, (7, 0)]
    peer.give_id = lambda: ids.pop(0)
    with client_of(peer, handler) as client:
        with client.topics[TOPIC].get_producer(linger_ms=0, required_acks=-1, retry_backoff_ms=10) as producer:
            producer.produce(b"x")
    assert peer.produced == [(7, 0)]
