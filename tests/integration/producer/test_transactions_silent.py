"""Calls about transactions end by their timeout while no broker answers: through proxies in front of a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException, TransactionAbortableError, TransactionUnfinishedError
from tests.brokers import KafkaCluster
from tests.integration.producer.test_transactions import committed, unique
from tests.integration.producer.test_transactions_unanswered import write
from tests.support.proxies import FrameProxy, detour
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("stable offsets"), pytest.mark.timeout(200)]
#: The deadline of a call, and how long it may take on a busy machine (s): much less than the socket timeout.
TIMEOUT, MOST = 0.5, 5.0


class Hushed:
    """A client whose hosts are all proxies, which can be made silent.

    :param client: of them
    :param proxies: in front of one broker
    """

    def __init__(self, client: KafkaClient, proxies: list[FrameProxy]) -> None:
        self.client = client
        self._proxies = proxies

    @contextmanager
    def silent(self, cut: bool, kind: type[Exception] = KafkaException) -> Iterator[None]:
        """Mute all hosts; the call that is made meanwhile fails in time.

        :param cut: close the connections first, so that the call needs another
        :param kind: the error
        """
        for proxy in self._proxies:
            proxy.mute()
            if cut:
                proxy.cut()
        now = self.client.cluster.handler.now
        began = now()
        try:
            with pytest.raises(kind):
                yield
            assert now() - began < MOST
        finally:
            for proxy in self._proxies:
                proxy.unmute()


@pytest.fixture(params=["threads", "gevent"])
def hushed(request: pytest.FixtureRequest, kafka: KafkaCluster) -> Iterator[Hushed]:
    """Yield a client with several hosts, on each handler."""
    port = int(kafka.hosts.rsplit(":", 1)[1])
    with ExitStack() as stack:
        proxies = [stack.enter_context(FrameProxy(port)) for _ in range(4)]
        hosts = ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)
        handler = detour(request.param, {port: proxies[0].port})
        yield Hushed(stack.enter_context(KafkaClient(hosts, handler=handler)), proxies)


@pytest.mark.parametrize("cut", [False, True])
def test_calls_keep_their_deadline_while_the_broker_is_silent(hushed: Hushed, cut: bool) -> None:
    """Looking for the coordinator, and connecting to it, took the client's own timeouts: up to 40 s."""
    topic = create_topic(hushed.client).name
    with hushed.client.producer(transactional_id=unique()) as producer:
        for call in (producer.init_transactions, producer.begin_transaction):
            with hushed.silent(cut):
                call(timeout=TIMEOUT)
        producer.begin_transaction()
        producer.produce(topic, b"1")
        producer.flush()
        for _ in range(2):
            with hushed.silent(cut, TransactionUnfinishedError):
                producer.commit_transaction(timeout=TIMEOUT)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.produce(topic, b"2")
        producer.flush()
        with hushed.silent(cut, TransactionUnfinishedError):
            producer.abort_transaction(timeout=TIMEOUT)
        with hushed.silent(cut):
            producer.begin_transaction(timeout=TIMEOUT)
        write(producer, topic, b"3")
    assert committed(hushed.client, topic) == [b"1", b"3"]


@pytest.mark.parametrize("cut", [False, True])
def test_offsets_keep_their_deadline_while_the_broker_is_silent(hushed: Hushed, cut: bool) -> None:
    topic = create_topic(hushed.client).name
    with (
        hushed.client.producer(transactional_id=unique()) as producer,
        hushed.client.consumer(topic, group=unique()) as consumer,
    ):
        write(producer, topic, b"1")
        record = consumer.one(30)
        assert record is not None
        with hushed.silent(cut):
            consumer.committed(timeout=TIMEOUT)
        with hushed.silent(cut):
            consumer.commit(timeout=TIMEOUT)
        producer.begin_transaction()
        with hushed.silent(cut, TransactionAbortableError):
            producer.send_offsets(consumer, timeout=TIMEOUT)
        producer.abort_transaction()
