"""A client whose known brokers are all gone begins again at its first addresses, and only in its own cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.broker import Broker
from pykafka.exceptions import ForeignClusterError, NoBrokersAvailableError
from pykafka.handlers import Address, Handler, ThreadingHandler
from pykafka.metadata.brokers import Brokers
from pykafka.network.addresses import canonical_addresses
from pykafka.protocol import wire
from tests.support.scripted import VERSIONS
from tests.unit.metadata.test_moving_brokers import Layout, Member

#: A name that leads to whatever the test wants.
NAME = "cluster.example"


class Named(Layout):
    """A layout whose cluster has an id, and may send clients back."""

    def __init__(self, cluster_id: str | None = "ours") -> None:
        super().__init__()
        self.cluster_id = cluster_id
        self.error_code = 0

    def answer(self, request: wire.MetadataRequest) -> wire.MetadataResponse:
        found = super().answer(request)
        found.cluster_id, found.error_code = self.cluster_id, self.error_code
        if self.error_code:
            found.brokers, found.topics = [], []
        return found


class Mortal(Member):
    """A broker that may end before its test."""

    ended = False

    def __exit__(self, *reason: Any) -> None:
        if not self.ended:
            self.ended = True
            super().__exit__(*reason)


@pytest.fixture
def start() -> Iterator[Callable[[Layout], Member]]:
    """Yield a function that starts a broker of a layout."""
    with ExitStack() as stack:
        yield lambda layout: stack.enter_context(Mortal(layout))


@pytest.fixture
def lead(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that leads the name to brokers; it returns the list of look-ups."""
    found: list[Address] = []
    asked: list[str] = []
    really = handler.resolve

    def resolve(host: str, port: int, *args: Any, **options: Any) -> list[Address]:
        if host != NAME:
            return really(host, port, *args, **options)
        asked.append(host)
        return list(found)

    def lead(*members: Member) -> list[str]:
        found[:] = [Address(2, ("127.0.0.1", int(member.hosts.split(":")[1]))) for member in members]
        return asked

    monkeypatch.setattr(handler, "resolve", resolve)
    return lead


def gone(member: Member) -> None:
    """End a broker: its port refuses connections from now on."""
    member.__exit__(None, None, None)


def moved(
    handler: Handler, start: Callable[[Layout], Member], lead: Callable[..., list[str]], **options: Any
) -> tuple[KafkaClient, Named, Member]:
    """Return a client whose one broker has gone, after the name was led to another one; its layout; and that one."""
    layout = Named()
    first, second = start(layout), start(layout)
    layout.brokers, layout.topics = {1: first.hosts}, {"scripted": 1}
    lead(first)
    client = KafkaClient(f"{NAME}:9092", handler=handler, reconnect_backoff_ms=1, reconnect_backoff_max_ms=1, **options)
    assert client.brokers[1].address == first.hosts
    gone(first)
    layout.brokers = {1: second.hosts}
    lead(second)
    return client, layout, second


def test_the_name_is_looked_up_anew(
    handler: Handler, start: Callable[[Layout], Member], lead: Callable[..., list[str]]
) -> None:
    client, _, second = moved(handler, start, lead)
    with client:
        topic = client.topics["scripted"]
        client.update_cluster()
        assert client.brokers[1].address == second.hosts
        assert topic.partitions[0].leader is client.brokers[1]
        with topic.get_sync_producer() as producer:
            producer.produce(b"found again")


def test_a_client_that_is_told_not_to_stays(
    handler: Handler, start: Callable[[Layout], Member], lead: Callable[..., list[str]]
) -> None:
    client, layout, _ = moved(handler, start, lead, metadata_recovery_strategy="none")
    with client:
        asked = len(lead()), len(layout.asked)
        with pytest.raises(NoBrokersAvailableError):
            client.update_cluster()
        assert (len(lead()), len(layout.asked)) == asked


def test_a_broker_sends_the_client_back(
    handler: Handler,
    start: Callable[[Layout], Member],
    lead: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(VERSIONS, wire.MetadataRequest, 13)
    old, new = Named(), Named()
    brokers = [start(old), start(old), start(new)]
    old.brokers = {1: brokers[0].hosts, 2: brokers[1].hosts}
    new.brokers = {3: brokers[2].hosts}
    lead(brokers[0])
    with KafkaClient(f"{NAME}:9092", handler=handler) as client:
        for broker in client.brokers.values():
            broker.connect()
        lead(brokers[2])
        old.error_code = 129
        del old.asked[:]
        client.update_cluster()
        assert len(old.asked) == 1, "the other broker was asked too"
        assert 3 in client.brokers


def test_the_first_addresses_are_asked_first_when_metadata_stays_away_for_too_long(
    handler: Handler, start: Callable[[Layout], Member], lead: Callable[..., list[str]]
) -> None:
    old, new = Named(), Named()
    brokers = [start(old), start(new)]
    old.brokers, new.brokers = {1: brokers[0].hosts}, {2: brokers[1].hosts}
    lead(brokers[0])
    with KafkaClient(f"{NAME}:9092", handler=handler, metadata_recovery_rebootstrap_trigger_ms=0) as client:
        client.brokers[1].connect()
        gone(brokers[0])
        lead(brokers[1])
        del old.asked[:]
        client.update_cluster()
        assert 2 in client.brokers


def test_another_cluster_is_an_error_by_name(
    handler: Handler, start: Callable[[Layout], Member], lead: Callable[..., list[str]]
) -> None:
    """The client would have produced to it, and committed offsets of its own cluster there."""
    client, layout, second = moved(handler, start, lead)
    layout.cluster_id = "theirs"
    before = client.brokers[1]
    with client:
        with pytest.raises(
            NoBrokersAvailableError, match="belongs to cluster theirs now, and this client began with ours"
        ) as raised:
            client.update_cluster()
        assert any(isinstance(error, ForeignClusterError) for _, error in raised.value.ledger)
        assert client.brokers[1] is before
        layout.cluster_id = "ours"
        client.update_cluster()
        assert client.brokers[1].address == second.hosts


def test_a_cluster_without_an_id_is_followed(
    handler: Handler, start: Callable[[Layout], Member], lead: Callable[..., list[str]]
) -> None:
    client, layout, second = moved(handler, start, lead)
    layout.cluster_id = None
    with client:
        client.update_cluster()
        assert client.brokers[1].address == second.hosts


# -- canonical names ---------------------------------------------------------------------------------------------------


def test_names_are_replaced_by_the_canonical_names_of_their_addresses(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = [Address(2, (f"10.0.0.{number}", 9092)) for number in (1, 2)]
    monkeypatch.setattr(handler, "resolve", lambda *args, **options: addresses)
    monkeypatch.setattr(handler, "name_of", lambda address, *rest: f"node-{address.sockaddr[0]}.example")
    found = canonical_addresses([(NAME, 9092), (NAME, 9092)], handler, 5.0, lambda: True)
    assert found == [("node-10.0.0.1.example", 9092), ("node-10.0.0.2.example", 9092)]


def test_a_name_without_addresses_stays_as_it_is(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> list[Address]:
        raise OSError("no such name")

    monkeypatch.setattr(handler, "resolve", fail)
    assert canonical_addresses([(NAME, 9092)], handler, 5.0, lambda: True) == [(NAME, 9092)]


def test_a_client_connects_by_canonical_names(
    handler: Handler, start: Callable[[Layout], Member], lead: Callable[..., list[str]]
) -> None:
    layout = Named()
    member = start(layout)
    layout.brokers = {1: member.hosts}
    lead(member)
    port = member.hosts.split(":")[1]
    options: dict[str, Any] = {"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"}
    with KafkaClient(f"{NAME}:{port}", handler=handler, **options) as client:
        assert client.cluster.seeds() != [(NAME, int(port))]
        assert client.brokers[1].address == member.hosts


def test_an_interrupt_is_no_failure_of_brokers(
    handler: Handler, start: Callable[[Layout], Member], lead: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Much later the next request would go to the first addresses, and say that no known broker answers."""

    class Interrupted(BaseException):
        pass

    def interrupt(*args: Any, **options: Any) -> None:
        raise Interrupted

    layout = Named()
    broker = start(layout)
    layout.brokers = {1: broker.hosts}
    lead(broker)
    with KafkaClient(f"{NAME}:9092", handler=handler, metadata_recovery_rebootstrap_trigger_ms=0) as client:
        monkeypatch.setattr(client.brokers[1], "call", interrupt)
        for seed in client.cluster._known_brokers._seeds.values():
            monkeypatch.setattr(seed, "call", interrupt)
        with pytest.raises(Interrupted):
            client.update_cluster()
        assert not client.cluster._known_brokers.is_bootstrap_due
        monkeypatch.undo()
        gone(broker)
        lead()
        with pytest.raises(NoBrokersAvailableError):
            client.update_cluster()
        assert client.cluster._known_brokers.is_bootstrap_due  # a failure stays one


def _unused(id_: int, host: str, port: int) -> Broker:
    return Broker(id_, host, port, ThreadingHandler(), 1000, 1000)


def test_beginning_again_is_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """Each worker that wants metadata tries ten times a second."""
    caplog.set_level(logging.INFO, "pykafka.metadata")
    brokers = Brokers(ThreadingHandler(), _unused)
    brokers.take_over({1: ("127.0.0.1", 9092)})
    for _ in range(100):
        assert [broker.id for broker in brokers.candidates(lambda: [("127.0.0.1", 9093)])] == [1, -1]
    assert [record.getMessage() for record in caplog.records] == [
        "no known broker answers: beginning again at 127.0.0.1:9093"
    ]
