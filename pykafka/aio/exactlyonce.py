"""`exactly_once` for coroutines; as `pykafka.transactions.exactly_once`, which it shares its judgements with."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException
from pykafka.handlers.bridge import bridged
from pykafka.transactions.exactly_once import MAX_RECORDS, Function, Made, MadeIn, TransactionRetries, messages_of
from pykafka.utils.contexts import entered

if TYPE_CHECKING:
    from pykafka.aio.consumer import KafkaConsumer
    from pykafka.aio.producer import KafkaProducer
    from pykafka.record import Record


class _Function(Function):
    """The user's function, which may be a coroutine function."""

    async def applied(self, records: Iterable[Record[Any, Any]]) -> list[MadeIn]:
        """Return the messages that it makes of records."""
        results: list[MadeIn] = []
        for record in records:
            with self.handling(record):
                try:
                    found = self.fn(record)
                    made = messages_of(await found if inspect.isawaitable(found) else found)
                except Exception as error:
                    self.error = error
                    raise
                results += self.made_here(made)
        return results


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
    await producer.init_transactions(consumer=consumer)
    function, handled = _Function(fn, getattr(consumer, "_inner", consumer)), 0
    async for records in consumer.batches(max_records):
        try:
            async with producer.transaction(consumer):
                for context, one in await function.applied(records):
                    with entered(context):
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
        if attempts.is_unsettled:
            await bridged(attempts.settle)
        attempts.done()
        handled += len(records)
    return handled
