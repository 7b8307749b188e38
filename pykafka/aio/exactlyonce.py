"""`exactly_once` for coroutines; as `pykafka.transactions.exactly_once`, which it shares its judgements with."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException
from pykafka.handlers.bridge import bridged
from pykafka.transactions.exactly_once import MAX_RECORDS, Function, Made, TransactionRetries, messages_of

if TYPE_CHECKING:
    from pykafka.aio.consumer import KafkaConsumer
    from pykafka.aio.producer import KafkaProducer
    from pykafka.producer.producer_record import ProducerRecord
    from pykafka.record import Record


class _Function(Function):
    """The user's function, which may be a coroutine function."""

    async def applied(self, records: Iterable[Record[Any, Any]]) -> AsyncGenerator[ProducerRecord[Any, Any], None]:
        """Yield the messages that it makes of records."""
        for record in records:
            with self.handling(record):
                try:
                    found = self.fn(record)
                    made = messages_of(await found if inspect.isawaitable(found) else found)
                except Exception as error:
                    self.error = error
                    raise
                for one in made:
                    yield one


async def exactly_once(
    consumer: KafkaConsumer[Any, Any],
    producer: KafkaProducer[Any, Any],
    fn: Callable[[Record[Any, Any]], Made | Awaitable[Made]],
    max_records: int = MAX_RECORDS,
) -> int:
    """Write what a function makes of each record, and commit it with the offsets; return how many records were handled.

    As `pykafka.exactly_once`, which documents parameters and errors; the function may be a coroutine function. A
    cancellation aborts the transaction, unless its commit was sent: `producer.close()` completes that.
    """
    attempts = TransactionRetries(getattr(consumer, "_inner", consumer), getattr(producer, "_inner", producer))
    await producer.init_transactions()
    function, handled = _Function(fn, getattr(consumer, "_inner", consumer)), 0
    async for records in consumer.batches(max_records):
        try:
            async with producer.transaction(consumer):
                async with aclosing(function.applied(records)) as made:
                    async for one in made:
                        await producer.produce(
                            one.topic or "",
                            one.value,
                            key=one.key,
                            headers=one.headers,
                            timestamp=one.timestamp,
                            partition=one.partition,
                        )
                await producer.send_offsets(consumer)
        except KafkaException as error:
            if error is function.error:
                raise
            if attempts.ended and not attempts.outcome_unknown:
                break
            if not await bridged(partial(attempts.resolve, error, len(records))):
                continue
        attempts.done()
        handled += len(records)
    return handled
