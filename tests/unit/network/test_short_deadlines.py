"""A short deadline is its caller's: the connection stands, and so do the other workers' requests on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka.exceptions import ResponseTimeoutError
from pykafka.handlers import Handler
from pykafka.network.node import Node
from pykafka.protocol import wire
from tests.support.scripted import ScriptedBroker
from tests.support.waiting import until

#: How long the caller waits (ms), and by when it must have given up (s).
SHORT_MS = 300
SOON_S = 5.0
PATIENT_MS = 60_000


class SlowBroker(ScriptedBroker):
    """A broker that answers Metadata when it is told to.

    It counts its connections.
    """

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        super().__init__(damage=self._hold)

    def _hold(self, request_cls: type[Any], frame: bytes) -> bytes:
        if request_cls is wire.MetadataRequest:
            self.goes_on.wait(60)
        return frame

    @property
    def connections(self) -> int:
        """How many there were."""
        return len(self._connections)


@pytest.fixture
def broker() -> Iterator[SlowBroker]:
    with SlowBroker() as broker:
        yield broker
        broker.goes_on.set()


@pytest.fixture
def node(broker: SlowBroker, handler: Handler) -> Iterator[Node]:
    host, port = broker.hosts.split(":")
    node = Node(1, host, int(port), handler, PATIENT_MS, PATIENT_MS)
    yield node
    broker.goes_on.set()
    node.close()


@pytest.mark.parametrize("reads", [False, True], ids=["waits", "reads"])
def test_whoever_gives_up_leaves_the_connection_to_the_others(
    broker: SlowBroker, node: Node, handler: Handler, reads: bool
) -> None:
    node.api_ranges()
    patient = node.send(wire.MetadataRequest(topics=[]))
    began = handler.now()
    with pytest.raises(ResponseTimeoutError):
        node.call(wire.MetadataRequest(topics=[]), timeout_ms=SHORT_MS, reads=reads)
    assert SHORT_MS / 1000 <= handler.now() - began < SOON_S
    assert not patient.done
    broker.goes_on.set()
    assert patient.get(timeout=SOON_S).brokers[0].node_id == 1
    assert node.call(wire.MetadataRequest(topics=[]), timeout_ms=PATIENT_MS // 2, reads=reads).brokers
    assert broker.connections == 1


def test_a_broker_that_owes_an_answer_is_asked_after_others(broker: SlowBroker, node: Node, handler: Handler) -> None:
    node.api_ranges()
    assert node.reach == 0
    pending = node.send(wire.MetadataRequest(topics=[]))
    until(handler, lambda: node.reach == 3)
    broker.goes_on.set()
    pending.get(timeout=SOON_S)
    assert node.reach == 0


def test_a_deadline_of_the_connection_ends_it(broker: SlowBroker, node: Node, handler: Handler) -> None:
    node.api_ranges()
    patient = node.send(wire.MetadataRequest(topics=[]))
    with pytest.raises(ResponseTimeoutError):
        node.send(wire.MetadataRequest(topics=[]), timeout_ms=SHORT_MS).get_when_due()
    until(handler, lambda: patient.done)
    assert patient.error is not None
    assert not node.is_connected("main")
