"""pykafka.aio: an error of the user's own coroutine function keeps its traceback, wherever the client reports it."""

from __future__ import annotations

import asyncio
import itertools
import json
import traceback
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from pykafka import EmbeddedCluster
from pykafka.aio import KafkaClient, exactly_once
from pykafka.deadletters import DeadLetters
from pykafka.exceptions import DeserializationError, OnDeliveryError, RecordNotHandledError
from pykafka.parallel import Retry
from tests.support import loops

#: The embedded cluster waits for the sessions of members that have left: each run has groups of its own.
numbers = itertools.count()

Run = Callable[[Coroutine[Any, Any, Any]], Any]

#: The function that raises: its name has to be in the report.
FRAME = "in a_helper_of_the_user"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield a cluster of one broker."""
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture(params=loops.KINDS)
def run(request: pytest.FixtureRequest) -> Run:
    """Return what runs a coroutine on a new loop of each kind."""
    return partial(loops.run_coroutine, request.param)


async def a_helper_of_the_user(*_: object) -> None:
    """Fail, after a wait."""
    await asyncio.sleep(0)
    raise ZeroDivisionError("of the user")


async def failing(*args: object) -> None:
    """Fail in a function that this one calls."""
    await a_helper_of_the_user(*args)


class Listener:
    """A listener whose `on_assigned` fails."""

    async def on_assigned(self, partitions: object) -> None:
        """Fail."""
        await failing(partitions)


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_the_cause_of_a_record_that_was_not_handled(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            await (await producer.produce("handled", b"1"))
            for retry in (None, Retry(1, backoff=0.01)):
                async with client.consumer("handled") as consumer, consumer.parallel(failing, retry=retry) as work:
                    with pytest.raises(RecordNotHandledError) as caught:
                        await work.wait(20)
                    assert FRAME in shown(caught.value)
                    assert shown(caught.value).count("in failing") == 1

    run(main())


def test_the_text_of_a_dead_letter(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            await (await producer.produce("letters", b"1"))
            letters = DeadLetters(client)
            async with (
                client.consumer("letters") as consumer,
                consumer.parallel(failing, dead_letters=letters),
                client.consumer("letters.dlq") as reader,
            ):
                headers = dict((await anext(reader)).headers)
        assert FRAME.encode() in (headers["__pykafka.errors.exception.stacktrace"] or b"")

    run(main())


def test_the_report_of_a_callback(cluster: EmbeddedCluster, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            await (await producer.produce("reports", b"1", on_delivery=failing))
            with pytest.raises(OnDeliveryError) as caught:
                await producer.flush()
            assert FRAME in shown(caught.value)
            assert caplog.text.count(FRAME) == 1
            async with client.consumer("reports", group=f"reports-{next(numbers)}") as consumer:
                await anext(consumer)
                await consumer.commit_async(on_commit=failing)
        assert caplog.text.count(FRAME) == 2

    run(main())


def test_the_error_of_a_listener(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            await (await producer.produce("listened", b"1"))
            async with client.consumer("listened", group=f"listened-{next(numbers)}", listener=Listener()) as consumer:
                with pytest.raises(ZeroDivisionError) as caught:
                    await consumer.poll(timeout=20)
                assert FRAME in shown(caught.value)

    run(main())


def test_the_cause_of_what_cannot_be_deserialized(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            await (await producer.produce("deserialized", b"{"))
            async with client.consumer("deserialized", value_deserializer=json.loads) as consumer:
                with pytest.raises(DeserializationError) as caught:
                    await consumer.poll(timeout=20)
                assert "in raw_decode" in shown(caught.value)
                with pytest.raises(DeserializationError) as caught:
                    await anext(consumer)
                assert "in raw_decode" in shown(caught.value)

    run(main())


def test_the_error_of_a_function_that_is_called_exactly_once(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            await (await producer.produce("once", b"1"))
            name = f"once-{next(numbers)}"
            async with (
                client.producer(transactional_id=name) as transactional,
                client.consumer("once", group=name, isolation_level="read_committed") as consumer,
            ):
                with pytest.raises(ZeroDivisionError) as caught:
                    await exactly_once(consumer, transactional, failing)
                assert FRAME in shown(caught.value)

    run(main())
