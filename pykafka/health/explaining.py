"""`explain_consumer` and `explain_producer`: all reasons, on demand; those of a consumer may ask brokers for details."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pykafka.admin import Admin
from pykafka.common import OffsetType, TopicPartition
from pykafka.consumer.lag import end_offset
from pykafka.exceptions import KafkaException
from pykafka.health.consumers import ConsumerView
from pykafka.health.explanation import Explanation, Reason, Why
from pykafka.health.producers import ProducerView, about
from pykafka.utils.error_handlers import valid_timeout

if TYPE_CHECKING:
    from collections.abc import Mapping


def explain_consumer(consumer: Any, timeout: float) -> Explanation:
    """Return why each partition of a consumer stands where it stands.

    :param timeout: how long brokers may take to answer (s); 0 asks none
    """
    view = ConsumerView(consumer, consumer._here())
    engine, seconds = view.engine, valid_timeout(timeout)
    reasons = {key: view.reason(owned) for key, owned in sorted(engine.partitions.items())}
    if seconds and engine.running:
        _add_ends(view, reasons, seconds)
        _add_transactions(view, reasons, seconds)
    lines: list[tuple[str, Reason]] = []
    membership = view.membership_reason() if engine.running else None
    if not engine.running and not view.starts_later:
        lines.append(("the consumer", Reason(Why.CLOSED, "it is closed", "make another")))
    if membership is not None:
        lines.append((f"group {engine.options.consumer_group}", membership))
    read_committed = engine.options.isolation_level == "read_committed"
    for key, reason in reasons.items():
        owned = engine.partitions.get(key)
        end = None if owned is None else end_offset(owned, read_committed)
        if owned is not None and end is not None and 0 <= owned.position < end:
            text = f"{end - owned.position} behind its end (offset {owned.position} of {end}): {reason.text}"
            lines.append((str(key), replace(reason, text=text)))
        else:
            lines.append((str(key), reason))
    return Explanation(view.name, tuple(lines))


def _add_ends(view: ConsumerView, reasons: Mapping[TopicPartition, Reason], seconds: float) -> None:
    """Ask where paused partitions end: no fetch answer says so."""
    paused = [key for key, reason in reasons.items() if reason.why is Why.PAUSED]
    if not paused:
        return
    wanted = dict.fromkeys(paused, OffsetType.LATEST)
    try:
        offsets, _ = view.engine.find_each_offset(wanted, timeout_ms=max(1, round(seconds * 1000)), once=True)
    except KafkaException:  # the reason stands without it
        return
    for key, offset in offsets.items():
        owned = view.engine.partitions.get(key)
        if owned is not None and offset > owned.high_watermark:
            owned.high_watermark = owned.last_stable_offset = offset


def _add_transactions(view: ConsumerView, reasons: dict[TopicPartition, Reason], seconds: float) -> None:
    """Ask whose transactions are open, and put their names into the reasons."""
    held = [key for key, reason in reasons.items() if reason.why is Why.OPEN_TRANSACTION]
    if not held:
        return
    admin = Admin(view.engine.cluster)
    ms = max(1, round(seconds * 1000 / 2))  # of each of two calls
    try:
        found = admin.describe_producers(held, timeout_ms=ms)
        open_ones = {
            key: [one for one in found[key] if one.txn_start_offset is not None] for key in held if key in found
        }
        ids = {one.producer_id for producers in open_ones.values() for one in producers}
        names = {
            one.producer_id: one.transactional_id
            for one in admin.list_transactions(producer_ids=sorted(ids), timeout_ms=ms)
        }
    except KafkaException as error:
        for key in held:
            reasons[key] = replace(reasons[key], text=f"{reasons[key].text} (whose: {type(error).__name__}: {error})")
        return
    for key, producers in open_ones.items():
        whose = ", ".join(
            f"{names.get(one.producer_id, 'unknown')!r} (producer id {one.producer_id})" for one in producers
        )
        if whose:
            reasons[key] = replace(reasons[key], text=f"{reasons[key].text}: transactional id {whose}")


def explain_producer(producer: Any) -> Explanation:
    """Return why the oldest message of each partition is not acknowledged yet."""
    view = ProducerView(producer)
    whole = view.whole()
    lines = [] if whole is None else [("the producer", whole)]
    for oldest in sorted(view.oldest, key=lambda one: one.queue.key):
        reason = view.reason(oldest)
        age = max(view.now - oldest.batch.created, 0.0)
        lines.append((about(oldest), replace(reason, text=f"oldest message of {age:.1f} s: {reason.text}")))
    return Explanation(view.name, tuple(lines))
