"""Options that the classes of PyKafka 3 take: True or False, and whole numbers up to what requests hold."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.config import Configuration
from pykafka.consumer.options import ConsumerOptions, KafkaConsumerOptions
from pykafka.groups.options import MemberOptions, SubscriberOptions
from pykafka.parallel.options import ParallelOptions
from pykafka.producer.options import KafkaProducerOptions, ProducerOptions
from pykafka.sharegroups.options import ShareConsumerOptions
from pykafka.utils import INT64_MAX
from pykafka.utils.option_table import INT32_MAX, Options

FLAGS: list[tuple[type[Options], str, dict[str, Any]]] = [
    (KafkaConsumerOptions, "auto_commit", {"group": "g"}),
    (KafkaProducerOptions, "enable_idempotence", {}),
    (ProducerOptions, "enable_idempotence", {"required_acks": -1}),
    (ParallelOptions, "manual_ack", {}),
]
HIGHEST: list[tuple[type[Options], str, int]] = [
    (KafkaProducerOptions, "ack_timeout_ms", INT32_MAX),
    (KafkaProducerOptions, "max_request_size", INT32_MAX),
    (KafkaProducerOptions, "buffer_memory", INT64_MAX),
    (KafkaProducerOptions, "transaction_timeout_ms", INT32_MAX),
    (KafkaConsumerOptions, "fetch_min_bytes", INT32_MAX),
    (KafkaConsumerOptions, "fetch_max_wait_ms", INT32_MAX),
    (KafkaConsumerOptions, "max_partition_fetch_bytes", INT32_MAX),
    (KafkaConsumerOptions, "queued_max_messages", INT64_MAX),
    (KafkaConsumerOptions, "queued_max_bytes", INT64_MAX),
    (ShareConsumerOptions, "max_records", INT32_MAX),
    (ShareConsumerOptions, "fetch_min_bytes", INT32_MAX),
    (ShareConsumerOptions, "fetch_max_wait_ms", INT32_MAX),
    (ShareConsumerOptions, "fetch_max_bytes", INT32_MAX),
    *(
        (kind, name, INT32_MAX)
        for kind in (MemberOptions, SubscriberOptions)
        for name in ("session_timeout_ms", "max_poll_interval_ms", "heartbeat_interval_ms")
    ),
]


@pytest.mark.parametrize(("kind", "name", "more"), FLAGS)
@pytest.mark.parametrize("value", ["false", "no", "", b"x", 0, 1, 1.5, [], object()])
def test_flags_are_true_or_false(kind: type[Options], name: str, more: dict[str, Any], value: object) -> None:
    field = next(row.field for row in kind.rows() if row.name == name)
    with pytest.raises(TypeError, match=f"{name} must be True or False, not {type(value).__name__}: "):
        kind.of({name: value, **more})
    for flag in (True, False):
        assert getattr(kind.of({name: flag, **more}), field) is flag


@pytest.mark.parametrize("kind", [KafkaProducerOptions, ProducerOptions])
def test_idempotence_may_be_left_to_the_producer(kind: type[KafkaProducerOptions | ProducerOptions]) -> None:
    assert kind(enable_idempotence=None).enable_idempotence is None


@pytest.mark.parametrize(
    ("text", "flag"), [("false", False), ("true", True), ("no", False), ("yes", True), (True, True)]
)
def test_texts_of_a_configuration_become_flags(text: object, flag: bool) -> None:
    keys = {"group.id": "g", "enable.auto.commit": text, "enable.idempotence": text, "acks": "all"}
    defaults = Configuration.read({"bootstrap.servers": "a:9092", **keys}).defaults
    assert KafkaConsumerOptions.configured({}, defaults["consumer"]).auto_commit_enable is flag
    assert ProducerOptions.of(defaults["producer"]).enable_idempotence is flag


@pytest.mark.parametrize("value", ["false", 0, None])
def test_those_of_a_client(value: Any) -> None:
    with pytest.raises(TypeError, match="allow_auto_create_topics must be True or False, not"):
        KafkaClient("127.0.0.1:1", allow_auto_create_topics=value)


@pytest.mark.parametrize(
    ("kind", "name", "more"),
    [
        (ConsumerOptions, "auto_commit_enable", {"consumer_group": "g"}),
        (ConsumerOptions, "reset_offset_on_start", {}),
        (ProducerOptions, "sync", {}),
        (ProducerOptions, "delivery_reports", {}),
        (ProducerOptions, "block_on_queue_full", {}),
    ],
)
@pytest.mark.parametrize("value", [1, 0, "yes", None])
def test_those_of_pykafka_2_take_any_value_as_there(
    kind: type[Options], name: str, more: dict[str, Any], value: object
) -> None:
    assert getattr(kind(**{name: value}, **more), name) == value


@pytest.mark.parametrize(("kind", "name", "highest"), HIGHEST)
def test_no_number_is_higher_than_its_field(kind: type[Options], name: str, highest: int) -> None:
    more = {"group": "g"} if kind is ShareConsumerOptions else {}
    field = next(row.field for row in kind.rows() if row.name == name)
    for value in (highest + 1, 2**70):
        with pytest.raises(ValueError, match=f"{name} must be at most {highest}, not {value}"):
            kind.of({name: value, **more})
    assert getattr(kind.of({name: highest, **more}), field) == highest


def test_the_memory_of_a_client_as_well() -> None:
    with pytest.raises(ValueError, match=f"buffer_memory must be at most {INT64_MAX}, not {2**70}"):
        KafkaClient("127.0.0.1:1", buffer_memory=2**70)


@pytest.mark.parametrize("kind", [KafkaConsumerOptions, ShareConsumerOptions])
def test_an_iteration_ends_after_a_time_or_never(kind: type[KafkaConsumerOptions | ShareConsumerOptions]) -> None:
    more: dict[str, Any] = {"group": "g"} if kind is ShareConsumerOptions else {}
    for value in (-2, -5):
        with pytest.raises(ValueError, match=f"consumer_timeout_ms must be -1, or 0 or more, not {value}"):
            kind(consumer_timeout_ms=value, **more)
    for value in (-1, 0, 7):
        assert kind(consumer_timeout_ms=value, **more).consumer_timeout_ms == value
