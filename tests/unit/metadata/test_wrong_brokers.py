"""A connection that was meant for another broker is refused by the one that it reaches (KIP-1242)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import ForeignClusterError, NoBrokersAvailableError, WrongBrokerError
from pykafka.handlers import Address, Handler
from pykafka.protocol import wire
from tests.support.scripted import VERSIONS
from tests.unit.metadata.test_rebootstrap import Mortal, Named

#: The names that lead to brokers as a test wants.
SEED, ONE = "seed.example", "one.example"
API_VERSIONS = wire.ApiVersionsRequest.api_key


class Checking(Mortal):
    """A broker that knows its number, and that of its cluster."""

    def __init__(self, layout: Named, id_: int) -> None:
        super().__init__(layout)
        self.named, self.id = layout, id_
        #: (version, cluster id, node id) of each ApiVersions.
        self.greetings: list[tuple[int, str | None, int]] = []
        #: Versions in which ApiVersions was asked for, refused ones included.
        self.versions: list[int] = []
        #: API keys of all requests.
        self.keys: list[int] = []

    def _answer(self, frame: bytes) -> bytes | None:
        key, self._version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        self.keys.append(key)
        if key == API_VERSIONS:
            self.versions.append(self._version)
        return super()._answer(frame)

    def _respond(self, request: Any) -> Any:
        if not isinstance(request, wire.ApiVersionsRequest):
            return super()._respond(request)
        self.greetings.append((self._version, request.cluster_id, request.node_id))
        meant = (request.cluster_id, request.node_id)
        if meant not in ((None, -1), (self.named.cluster_id, self.id)):
            return wire.ApiVersionsResponse(error_code=129)
        return super()._respond(request)


@pytest.fixture
def start() -> Iterator[Callable[[Named, int], Checking]]:
    """Yield a function that starts a broker of a layout, by its number."""
    with ExitStack() as stack:
        yield lambda layout, id_: stack.enter_context(Checking(layout, id_))


@pytest.fixture
def lead(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Checking], None]:
    """Return a function that leads a name to a broker."""
    places: dict[str, Address] = {}
    really = handler.resolve

    def resolve(host: str, port: int, *args: Any, **options: Any) -> list[Address]:
        return [places[host]] if host in places else really(host, port, *args, **options)

    monkeypatch.setattr(handler, "resolve", resolve)
    monkeypatch.setitem(VERSIONS, wire.ApiVersionsRequest, 5)

    def lead(name: str, broker: Checking) -> None:
        places[name] = Address(2, ("127.0.0.1", int(broker.hosts.split(":")[1])))

    return lead


def ours(start: Callable[[Named, int], Checking], lead: Callable[[str, Checking], None]) -> tuple[Named, Checking]:
    """Return a cluster of one broker, which two names lead to."""
    layout = Named("ours")
    layout.brokers, layout.topics = {1: f"{ONE}:9092"}, {"scripted": 1}
    broker = start(layout, 1)
    lead(SEED, broker)
    lead(ONE, broker)
    return layout, broker


def connect(handler: Handler, **options: Any) -> KafkaClient:
    return KafkaClient(f"{SEED}:9092", handler=handler, reconnect_backoff_ms=1, reconnect_backoff_max_ms=1, **options)


def test_a_connection_says_whom_it_is_meant_for_without_a_further_request(
    handler: Handler, start: Callable[[Named, int], Checking], lead: Callable[[str, Checking], None]
) -> None:
    _, broker = ours(start, lead)
    with connect(handler) as client:
        client.brokers[1].connect()
        assert broker.greetings == [(4, None, -1), (5, "ours", 1)]
        assert broker.keys.count(API_VERSIONS) == 2, "one a connection"


@pytest.mark.parametrize(("highest", "versions"), [(4, [4, 4]), (2, [4, 0, 4, 0])])
def test_older_brokers_are_not_asked_in_a_version_that_they_would_refuse(
    handler: Handler,
    start: Callable[[Named, int], Checking],
    lead: Callable[[str, Checking], None],
    monkeypatch: pytest.MonkeyPatch,
    highest: int,
    versions: list[int],
) -> None:
    _, broker = ours(start, lead)
    monkeypatch.setitem(VERSIONS, wire.ApiVersionsRequest, highest)
    with connect(handler) as client:
        client.brokers[1].connect()
        assert broker.versions == versions


def test_a_broker_of_an_older_release_is_asked_again(
    handler: Handler,
    start: Callable[[Named, int], Checking],
    lead: Callable[[str, Checking], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a rolling upgrade, or a downgrade: another broker has listed version 5."""
    _, broker = ours(start, lead)
    with connect(handler) as client:
        monkeypatch.setitem(VERSIONS, wire.ApiVersionsRequest, 4)
        client.brokers[1].connect()
        assert broker.versions == [4, 5, 0], "the answer names no version"


@pytest.mark.parametrize("option", ["metadata_cluster_check_enable", "metadata_recovery_strategy"])
def test_the_check_can_be_left_out(
    handler: Handler, start: Callable[[Named, int], Checking], lead: Callable[[str, Checking], None], option: str
) -> None:
    _, broker = ours(start, lead)
    values = {"metadata_cluster_check_enable": False, "metadata_recovery_strategy": "none"}
    with connect(handler, **{option: values[option]}) as client:
        client.brokers[1].connect()
        assert broker.greetings == [(4, None, -1)] * 2


@pytest.mark.parametrize("theirs", [("theirs", 1), ("ours", 2)], ids=["another cluster", "another broker"])
def test_a_reused_address_is_refused_and_the_right_broker_found(
    handler: Handler,
    start: Callable[[Named, int], Checking],
    lead: Callable[[str, Checking], None],
    theirs: tuple[str, int],
) -> None:
    layout, first = ours(start, lead)
    foreign, moved = start(Named(theirs[0]), theirs[1]), start(layout, 1)
    with connect(handler) as client:
        topic = client.topics["scripted"]
        client.brokers[1].connect()
        first.__exit__(None, None, None)
        lead(ONE, foreign)  # the address was given away
        lead(SEED, moved)  # the cluster is elsewhere
        del foreign.keys[:]
        with pytest.raises(
            WrongBrokerError, match=r"no longer leads to broker 1 of cluster ours.* first addresses"
        ) as raised:
            client.brokers[1].call(wire.MetadataRequest(topics=[]))
        assert not isinstance(raised.value, ForeignClusterError)
        assert (raised.value.broker, raised.value.api) == (f"{ONE}:9092", "ApiVersions")
        assert raised.value.retriable
        assert raised.value.invalid_metadata
        assert set(foreign.keys) <= {API_VERSIONS, wire.HeartbeatRequest.api_key}, "it was told something else"
        host, port = moved.hosts.split(":")
        layout.brokers = {1: f"{host}:{port}"}
        with topic.get_sync_producer(linger_ms=0) as producer:
            producer.produce(b"found again")
        assert client.brokers[1].address == moved.hosts
        assert wire.ProduceRequest.api_key in moved.keys
        assert wire.ProduceRequest.api_key not in foreign.keys


def test_an_address_that_stays_wrong_is_an_error_by_name(
    handler: Handler, start: Callable[[Named, int], Checking], lead: Callable[[str, Checking], None]
) -> None:
    _, first = ours(start, lead)
    foreign = start(Named("theirs"), 1)
    foreign.named.brokers = {1: f"{ONE}:9092"}
    with connect(handler) as client:
        client.brokers[1].connect()
        first.__exit__(None, None, None)
        for name in (SEED, ONE):
            lead(name, foreign)
        with pytest.raises(NoBrokersAvailableError, match="no longer leads to broker 1 of cluster ours") as raised:
            client.update_cluster()
        kinds = {type(error) for _, error in raised.value.ledger}
        assert kinds == {WrongBrokerError, ForeignClusterError}
        assert wire.ProduceRequest.api_key not in foreign.keys
