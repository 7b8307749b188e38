"""What a producer can be told, in one place: defaults and checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pykafka.common import CompressionType
from pykafka.utils.error_handlers import valid_callable, valid_int

#: A record batch's own header, with what a request adds around it (bytes).
BATCH_OVERHEAD = 200
#: What the fields of a request hold.
ACKS_MAX = 2**15 - 1
ACK_TIMEOUT_MAX_MS = 2**31 - 1


@dataclass(frozen=True)
class ProducerOptions:
    """The settings of a producer; names and units as the parameters of `Producer`."""

    compression: int
    max_retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    required_acks: int
    ack_timeout_ms: int
    max_queued_messages: int
    max_queued_bytes: int
    min_queued_messages: int
    linger_ms: int
    block_on_queue_full: bool
    max_request_size: int
    sync: bool
    delivery_reports: bool
    pending_timeout_ms: int
    delivery_timeout_ms: int
    serializer: Callable[[Any, Any], tuple[Any, Any]] | None
    enable_idempotence: bool | None = None
    on_delivery: Callable[..., object] | None = None
    max_failed_messages: int = 10_000
    max_failed_bytes: int = 32 * 1024 * 1024

    @classmethod
    def checked(cls, **options: Any) -> ProducerOptions:
        """Return options after checking each.

        :raises TypeError, ValueError: one of them is out of bounds, by name
        """
        codec = valid_int(options["compression"], allow_zero=True, allow_negative=True, name="compression")
        if codec not in tuple(CompressionType):
            raise ValueError(f"compression must be one of pykafka.common.CompressionType, not {codec!r}")
        for name in (
            "max_retries",
            "retry_backoff_ms",
            "retry_backoff_max_ms",
            "ack_timeout_ms",
            "linger_ms",
            "pending_timeout_ms",
            "delivery_timeout_ms",
        ):
            valid_int(options[name], allow_zero=True, name=name)
        for name in (
            "max_queued_messages",
            "max_queued_bytes",
            "max_request_size",
            "max_failed_messages",
            "max_failed_bytes",
        ):
            valid_int(options[name], name=name)
        for name in ("serializer", "on_delivery"):
            valid_callable(options[name], name)
        if options["on_delivery"] is not None and options["delivery_reports"]:
            raise ValueError("give on_delivery or delivery_reports=True, not both: each message is told once")
        valid_int(options["required_acks"], allow_zero=True, allow_negative=True, name="required_acks")
        if not -1 <= options["required_acks"] <= ACKS_MAX:
            raise ValueError(
                f"required_acks must be -1 (all replicas), 0, or 1 to {ACKS_MAX}, not {options['required_acks']}"
            )
        if options["ack_timeout_ms"] > ACK_TIMEOUT_MAX_MS:
            raise ValueError(f"ack_timeout_ms must be at most {ACK_TIMEOUT_MAX_MS}, not {options['ack_timeout_ms']}")
        if options.get("enable_idempotence"):
            for name, needed, reason in (
                ("required_acks", options["required_acks"] == -1, "-1 (all replicas)"),
                ("max_retries", options["max_retries"] > 0, "at least 1"),
            ):
                if not needed:
                    raise ValueError(f"enable_idempotence=True needs {name} to be {reason}, not {options[name]}")
        if options["sync"]:
            options.update(linger_ms=0, min_queued_messages=1)
        valid_int(options["min_queued_messages"], name="min_queued_messages")
        if options["max_request_size"] <= BATCH_OVERHEAD:
            raise ValueError(
                f"max_request_size must be above {BATCH_OVERHEAD} bytes, not {options['max_request_size']}"
            )
        return cls(**options | {"compression": int(codec)})

    @property
    def idempotent(self) -> bool:
        """Whether batches are to have sequence numbers where brokers know them."""
        return self.enable_idempotence is not False and self.required_acks == -1 and self.max_retries > 0

    @property
    def batch_limit(self) -> int:
        """At which size a batch is full (bytes, uncompressed)."""
        return self.max_request_size - BATCH_OVERHEAD

    @property
    def linger_s(self) -> float:
        """How long a message may wait for company (s)."""
        return self.linger_ms / 1000

    @property
    def delivery_timeout_s(self) -> float:
        """How old a message may get before it has failed (s)."""
        return self.delivery_timeout_ms / 1000
