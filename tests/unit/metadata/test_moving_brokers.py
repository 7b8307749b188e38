"""Brokers that move to another address, leave, or cannot be reached any more while somebody uses them."""

from __future__ import annotations

import _socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import ClientClosedError, KafkaException, MessagesNotDelivered, SocketDisconnectedError
from pykafka.handlers import Handler
from pykafka.protocol import wire
from tests.support.scripted import ScriptedBroker, batch
from tests.support.waiting import until

#: Longer than any test may take: nothing here is to wait for it.
TIMEOUT_MS = 60_000


class Layout:
    """The metadata that all brokers of a scripted cluster give; a test changes it as it goes on."""

    def __init__(self) -> None:
        self.brokers: dict[int, str] = {}
        #: {topic: leader of its one partition}
        self.topics: dict[str, int] = {}
        self.asked: list[list[str] | None] = []

    def answer(self, request: wire.MetadataRequest) -> wire.MetadataResponse:
        """Return the metadata that a request asks for."""
        names = None if request.topics is None else [str(topic.name) for topic in request.topics]
        self.asked.append(names)
        return wire.MetadataResponse(
            brokers=[
                wire.MetadataResponse.Broker(node_id=id_, host=where.split(":")[0], port=int(where.split(":")[1]))
                for id_, where in self.brokers.items()
            ],
            controller_id=1,
            topics=[self._topic(name) for name in (self.topics if names is None else names)],
        )

    def _topic(self, name: str) -> wire.MetadataResponse.Topic:
        if name not in self.topics:
            return wire.MetadataResponse.Topic(name=name, error_code=3)
        leader = self.topics[name]
        partition = wire.MetadataResponse.Topic.Partition(
            partition_index=0, leader_id=leader, replica_nodes=[leader], isr_nodes=[leader]
        )
        return wire.MetadataResponse.Topic(name=name, partitions=[partition])


class Member(ScriptedBroker):
    """A broker of a scripted cluster, which leads whatever it is asked for."""

    def __init__(self, layout: Layout, records: bytes = b"") -> None:
        super().__init__(records)
        self.layout = layout

    def _respond(self, request: Any) -> Any:
        if isinstance(request, wire.MetadataRequest):
            return self.layout.answer(request)
        if isinstance(request, wire.ListOffsetsRequest):
            partition = wire.ListOffsetsResponse.Topic.Partition(partition_index=0, offset=0)
            return wire.ListOffsetsResponse(
                topics=[
                    wire.ListOffsetsResponse.Topic(name=topic.name, partitions=[partition]) for topic in request.topics
                ]
            )
        answer = super()._respond(request)
        if isinstance(request, wire.FetchRequest):
            answer.responses[0].topic = request.topics[0].topic
        return answer


@pytest.fixture
def layout() -> Layout:
    return Layout()


@pytest.fixture
def members(layout: Layout) -> Iterator[list[Member]]:
    """Yield three brokers that are up; which of them is which is for the layout to say."""
    with ExitStack() as stack:
        found = [Member(layout, batch([b"one", b"two"])) for _ in range(3)]
        for member in found:
            stack.enter_context(member)
        layout.brokers = {1: found[0].hosts, 2: found[1].hosts}
        layout.topics = {"here": 1, "there": 2}
        yield found


@pytest.fixture
def client(members: list[Member], handler: Handler) -> Iterator[KafkaClient]:
    with KafkaClient(members[0].hosts, handler=handler, socket_timeout_ms=TIMEOUT_MS) as client:
        yield client


def opening(client: KafkaClient, outcome: list[Any]) -> Any:
    """Open a connection to broker 2 in a worker, which appends its error to `outcome`."""
    channel = client.brokers[2].channel("produce")

    def connect() -> None:
        try:
            channel.open()
        except KafkaException as error:
            outcome.append(error)

    return client.cluster.handler.spawn(connect, name="connecting")


def connecting(
    client: KafkaClient, layout: Layout, peers: dict[str, int], outcome: list[Any], monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Connect to broker 2 in a worker, at an address that swallows all bytes."""
    layout.brokers[2] = f"127.0.0.1:{peers['swallows']}"
    client.update_cluster()
    handler = client.cluster.handler
    begun, really_connect = handler.Event(), handler.connect

    def note(*args: Any, **options: Any) -> Any:
        begun.set()
        return really_connect(*args, **options)

    monkeypatch.setattr(handler, "connect", note)
    worker = opening(client, outcome)
    assert begun.wait(20)
    return worker


def test_a_broker_that_moves_from_an_address_that_swallows_holds_up_nobody(
    client: KafkaClient, layout: Layout, members: list[Member], peers: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing the old broker waited for the connect under way, and all metadata waited for that."""
    outcome: list[Any] = []
    worker = connecting(client, layout, peers, outcome, monkeypatch)
    layout.brokers[2] = members[2].hosts
    handler = client.cluster.handler
    started = handler.now()
    client.update_cluster()
    client.update_cluster()
    assert worker.join(20)
    assert handler.now() - started < TIMEOUT_MS / 2000
    assert type(outcome[0]) is SocketDisconnectedError
    assert "moved to another address" in str(outcome[0])
    assert client.brokers[2].address == members[2].hosts


def close_and_join(client: KafkaClient, worker: Any) -> float:
    """Close a client, wait for a worker that connects, and return how long both took (s)."""
    started = client.cluster.handler.now()
    client.close()
    assert worker.join(20)
    return client.cluster.handler.now() - started


def test_closing_a_client_ends_a_connect_under_way(
    client: KafkaClient, layout: Layout, peers: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome: list[Any] = []
    worker = connecting(client, layout, peers, outcome, monkeypatch)
    assert close_and_join(client, worker) < TIMEOUT_MS / 2000
    assert type(outcome[0]) is ClientClosedError


def test_topics_refer_to_a_broker_that_moved_though_others_were_asked_about(
    client: KafkaClient, layout: Layout, members: list[Member]
) -> None:
    """A topic went on using a broker that another topic's refresh had replaced: its consumer raised ClientClosedError."""
    there = client.topics["there"]
    old = client.brokers[2]
    layout.brokers[2] = members[2].hosts
    client.cluster.update(["here"])
    assert there.partitions[0].leader is client.brokers[2] is not old
    with pytest.raises(SocketDisconnectedError, match="left the cluster, or moved"):
        old.channel("new").open()
    with pytest.raises(SocketDisconnectedError, match="left the cluster, or moved"):
        old.shared("new", lambda: pytest.fail("it made something for a broker that is gone"))


def test_a_consumer_follows_a_broker_that_another_topics_refresh_has_replaced(
    client: KafkaClient, layout: Layout, members: list[Member]
) -> None:
    consumer = client.topics["there"].get_simple_consumer(consumer_timeout_ms=20_000, fetch_error_backoff_ms=50)
    assert [message.value for message in (consumer.consume(), consumer.consume()) if message is not None] == [
        b"one",
        b"two",
    ]
    members[2].records = batch([b"one", b"two"]) + batch([b"three"], 2)
    layout.brokers[2] = members[2].hosts
    client.cluster.update(["here"])
    message = consumer.consume()
    assert message is not None
    assert message.value == b"three"
    consumer.stop()


def test_a_consumer_waits_while_metadata_names_no_brokers(
    client: KafkaClient, layout: Layout, members: list[Member]
) -> None:
    """Every half second it raised that the client was closed."""
    consumer = client.topics["there"].get_simple_consumer(consumer_timeout_ms=1500, fetch_error_backoff_ms=50)
    assert consumer.consume() is not None
    assert consumer.consume() is not None
    brokers, topics = dict(layout.brokers), dict(layout.topics)
    layout.brokers.clear()
    layout.topics.clear()
    client.update_cluster()
    client.cluster.update(["here"])
    assert consumer.consume() is None
    layout.brokers.update(brokers)
    layout.topics.update(topics)
    for member in members:
        member.records += batch([b"three"], 2)
    client.update_cluster()
    until(client.cluster.handler, lambda: consumer.consume(block=False) is not None)
    consumer.stop()


def test_an_answer_that_names_no_brokers_leaves_all_as_it_is(
    client: KafkaClient, layout: Layout, members: list[Member], caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers were closed and topics dropped, though all that had happened was that one broker was just starting."""
    topic = client.topics["there"]
    before = dict(client.brokers)
    layout.brokers, layout.topics = {}, {}
    client.update_cluster()
    client.cluster.update(["there"])
    assert client.brokers == before
    assert topic.partitions[0].leader is before[2]
    assert "there" in client.topics
    before[2].connect()
    assert caplog.text.count("those known before are kept") == 1


def test_a_broker_that_starts_up_is_not_believed_while_others_know_more(
    client: KafkaClient, layout: Layout, members: list[Member]
) -> None:
    client.update_cluster()
    before = dict(client.brokers)
    members[0].layout = Layout()  # it has only just started, and is the one whose connection is up
    client.brokers[1].connect()
    layout.topics["new"] = 2
    client.cluster.update(["new"])
    assert client.brokers == before
    assert client.topics["new"].partitions[0].leader is before[2]


def test_a_broker_that_is_left_out_is_kept_while_its_connection_stands(
    client: KafkaClient, layout: Layout, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer of a broker that knew few of the others ended all connections to those, and whatever was under way."""
    known = client.brokers[2]
    known.connect()
    where = layout.brokers.pop(2)
    client.update_cluster()
    assert client.brokers[2] is known
    layout.brokers[2] = where
    client.update_cluster()
    assert client.brokers[2] is known
    del layout.brokers[2]
    client.update_cluster()
    monkeypatch.setattr("pykafka.metadata.brokers.MISSING_S", 0.0)
    client.update_cluster()
    assert 2 not in client.brokers
    with pytest.raises(SocketDisconnectedError, match="left the cluster, or moved"):
        known.channel("new").open()


def test_a_broker_without_a_connection_is_dropped_when_it_is_missing(client: KafkaClient, layout: Layout) -> None:
    client.brokers[1].connect()  # who is connected is asked; either of them would be
    del layout.brokers[2]
    client.update_cluster()
    assert 2 not in client.brokers


#: A name that no name server knows or denies.
SILENT = "slow.example:9092"


@pytest.fixture
def asked(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the list of who asks for `SILENT`, who is answered when the test has ended."""
    released = handler.native.Event()
    found: list[str] = []
    real = _socket.getaddrinfo

    def slow(host: Any, *rest: Any, **others: Any) -> Any:
        if host in ("slow.example", b"slow.example"):
            found.append(SILENT)
            released.wait(60)
            return []
        return real(host, *rest, **others)

    monkeypatch.setattr(_socket, "getaddrinfo", slow)  # what all lookups end in
    yield found
    released.set()


def test_closing_a_client_does_not_wait_for_a_name_server(
    client: KafkaClient, layout: Layout, asked: list[str]
) -> None:
    """On threads a lookup could not be interrupted, and whoever closed the connection waited for its end."""
    layout.brokers[2] = SILENT
    client.update_cluster()
    outcome: list[Any] = []
    worker = opening(client, outcome)
    until(client.cluster.handler, lambda: bool(asked))
    assert close_and_join(client, worker) < TIMEOUT_MS / 4000
    assert type(outcome[0]) is ClientClosedError


def test_stopping_does_not_wait_for_a_name_server(
    client: KafkaClient, layout: Layout, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka.producer.engine.JOIN_TIMEOUT_S", 0.2)
    layout.brokers[2] = SILENT
    layout.topics["there"] = 2
    client.update_cluster()
    handler = client.cluster.handler
    topic = client.topics["there"]
    producer = topic.get_producer(linger_ms=0, pending_timeout_ms=100)
    producer.produce(b"never")
    consumer = topic.get_simple_consumer(auto_start=False)
    starter = handler.spawn(_started, consumer, name="starting")
    until(handler, lambda: bool(asked))
    started = handler.now()
    consumer.stop()
    with pytest.raises(MessagesNotDelivered):
        producer.stop()
    took = handler.now() - started
    client.close()
    assert starter.join(20)
    assert handler.now() - started < TIMEOUT_MS / 4000, took


def _started(consumer: Any) -> None:
    with suppress(KafkaException):
        consumer.start()


@pytest.mark.parametrize("where", ["127.0.0.1\0evil:9092", "127.0.0.1:70000", "127.0.0.1:-5"])
def test_an_advertised_address_that_is_none(client: KafkaClient, layout: Layout, where: str) -> None:
    """A NUL was a bare ValueError, and a port that is too large was cut off to another one."""
    layout.brokers[2] = where
    client.update_cluster()
    with pytest.raises(SocketDisconnectedError, match="no host and port to connect to; .*advertise"):
        client.brokers[2].connect(attempts=1)


def test_the_user_is_told_of_a_nul_in_hosts() -> None:
    with pytest.raises(ValueError, match="a NUL in the host"):
        KafkaClient("local\0host:9092")
