"""OpenTelemetry: spans and metrics of what a client sends and receives (extra `otel`); docs/tracing.md shows their use.

from pykafka import otel

otel.instrument(client)
"""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

try:
    import opentelemetry.trace  # noqa: F401
except ImportError as error:
    raise ImportError(
        "pykafka.otel needs opentelemetry-api: pip install 'pykafka[otel]'", name="opentelemetry"
    ) from error

from pykafka.otel.instrumentation import Instrumentation, instrumentation_of

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["Instrumentation", "instrument", "process", "uninstrument"]

#: The instrumentation that was made last, for `process()` without a consumer.
_last: weakref.ref[Instrumentation] | None = None


def instrument(
    client: Any,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    propagator: TextMapPropagator | None = None,
    record_keys: bool = False,
    links_only: bool = False,
) -> Instrumentation:
    """Make spans and metrics of all that producers and consumers of a client do from now on, those that exist included.

    Loops and parallel runs that have begun stay as they are. A client that is instrumented already gets the new settings.

    :param client: a `KafkaClient`, or one of `pykafka.aio` that is connected
    :param tracer_provider: makes spans; None for the global one
    :param meter_provider: makes metrics; None for the global one
    :param propagator: writes the context of a trace into headers, and reads it; None for the global one
    :param record_keys: whether spans show the keys of messages, which may be personal data
    :param links_only: whether the span of a record is only linked to the one that has sent it; by default it is its child, and
        a trace goes on from producer to consumer
    :raises TypeError: it is no client
    """
    global _last
    made = Instrumentation(client, tracer_provider, meter_provider, propagator, record_keys, links_only)
    _last = weakref.ref(made)
    return made


def uninstrument(client: Any) -> None:
    """Make no more spans and metrics of a client; those that have begun end as usual.

    :param client: as of `instrument`
    """
    found = instrumentation_of(client)
    if found is not None:
        found.remove()


def process(record: Any, consumer: Any = None) -> AbstractContextManager[Span | None]:
    """Return a context in which a record is handled: its span `process` is current there. For records of `poll()`.

    It does nothing if the client is not instrumented.

    :param record: a `Record`, or a `Message` that one of PyKafka 2's consumers has returned
    :param consumer: that has returned it, which names the group and the client; None for the client that was instrumented last
    """
    if consumer is not None:
        inner = getattr(consumer, "_inner", consumer)
        tracer = inner._cluster.tracer
        options = inner._options
        group = options.group if hasattr(options, "group") else options.consumer_group
    else:
        last = None if _last is None else _last()
        tracer, group = None if last is None else last.tracer, None
    return nullcontext() if tracer is None else tracer.processing(record, group)
