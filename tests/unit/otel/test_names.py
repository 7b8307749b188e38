"""`error.type`, and how contexts travel in headers."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import set_span_in_context

from pykafka.exceptions import DeliveryUnknownError, KafkaException, NotEnoughReplicas, error_for
from pykafka.otel.headers import TraceHeaders
from pykafka.otel.names import error_type


class OwnError(Exception):
    """An error of an application."""


def unexpected(what: str, error: BaseException) -> None:
    raise AssertionError(what) from error


def because(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (NotEnoughReplicas("secret"), "NOT_ENOUGH_REPLICAS"),
        (error_for(999), "UnknownErrorCode"),
        (KafkaException("secret"), "KafkaException"),
        (because(DeliveryUnknownError("given up"), NotEnoughReplicas()), "NOT_ENOUGH_REPLICAS"),
        (ValueError("secret"), "ValueError"),
        (OwnError("secret"), f"{__name__}.OwnError"),
    ],
)
def test_error_types(error: BaseException, name: str) -> None:
    assert error_type(error) == name


def test_headers_stay_as_they_are() -> None:
    span = TracerProvider().get_tracer("test").start_span("one")
    own: list[tuple[str, bytes | None]] = [("a", b"1"), ("traceparent", b"old"), ("a", None)]
    headers = TraceHeaders(None, unexpected)
    sent = headers.injected(own, set_span_in_context(span))
    assert own == [("a", b"1"), ("traceparent", b"old"), ("a", None)]
    assert [pair for pair in sent if pair[0] != "traceparent"] == [("a", b"1"), ("a", None)]
    assert [type(value) for name, value in sent if name == "traceparent"] == [bytes]
    creation: Any = headers.creation(sent)
    assert creation.span_id == span.get_span_context().span_id


@pytest.mark.parametrize("value", [b"", b"\xff\xfe", b"00-xyz", None, b"0" * 5000])
def test_headers_of_others(value: bytes | None) -> None:
    headers = TraceHeaders(None, unexpected)
    assert headers.creation([("traceparent", value)]) is None
    assert headers.creation([]) is None


def test_the_last_header_counts() -> None:
    """Instrumentations that append leave that of an earlier message in front."""
    old, new = (b"00-" + b"%032x-%016x" % (number, number) + b"-01" for number in (1, 2))
    creation: Any = TraceHeaders(None, unexpected).creation([("traceparent", old), ("traceparent", new)])
    assert creation.span_id == 2
