"""Settings stand once: the constructors that have the documented signatures agree with them."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

import pytest

from pykafka import BalancedConsumer, KafkaClient, ManagedBalancedConsumer, Producer, SimpleConsumer
from pykafka.compat.options import (
    BalancedConsumerArguments,
    GroupOptions,
    KafkaConsumerArguments,
    ManagedBalancedConsumerArguments,
    ProducerArguments,
    SimpleConsumerArguments,
    ZooKeeperOptions,
)
from pykafka.consumer.options import ConsumerOptions, KafkaConsumerOptions
from pykafka.groups.options import MemberOptions, SubscriberOptions
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.kafkaproducer import KafkaProducer
from pykafka.metadata.options import MetadataSettings
from pykafka.network.options import ConnectionSettings
from pykafka.producer.options import KafkaProducerArguments, KafkaProducerOptions, ProducerOptions
from pykafka.rdkafka import RdKafkaProducer, RdKafkaSimpleConsumer
from pykafka.sharegroups.consumer import ShareConsumer
from pykafka.sharegroups.options import ShareConsumerArguments, ShareConsumerOptions
from pykafka.utils.option_table import Settings

#: What a class has of other settings, and the settings that mean something else there or have another default.
SHARED = {"auto_commit_enable", "metadata_max_age_ms", "reset_offset_on_fetch", "reset_offset_on_start"}
REBALANCES = {"rebalance_max_retries", "rebalance_backoff_ms"}
CLASSES: list[tuple[type[Any], type[Settings], set[str]]] = [
    (KafkaClient, ConnectionSettings, set()),
    (KafkaClient, MetadataSettings, set()),
    (Producer, ProducerOptions, set()),
    (KafkaProducer, KafkaProducerOptions, set()),
    (KafkaConsumer, KafkaConsumerOptions, set()),
    (KafkaConsumer, SubscriberOptions, {"assignor", "group_instance_id", "metadata_max_age_ms"}),
    (ShareConsumer, ShareConsumerOptions, set()),
    (SimpleConsumer, ConsumerOptions, set()),
    (BalancedConsumer, ConsumerOptions, SHARED | {"consumer_group"}),
    (BalancedConsumer, GroupOptions, REBALANCES),
    (BalancedConsumer, ZooKeeperOptions, set()),
    (ManagedBalancedConsumer, ConsumerOptions, SHARED | {"consumer_group"}),
    (ManagedBalancedConsumer, GroupOptions, REBALANCES),
    (ManagedBalancedConsumer, MemberOptions, {"metadata_max_age_ms"}),
]
ids = [f"{cls.__name__}-{kind.__name__}" for cls, kind, _ in CLASSES]


@pytest.mark.parametrize(("cls", "kind", "differing"), CLASSES, ids=ids)
def test_constructors_have_every_setting(cls: type[Any], kind: type[Settings], differing: set[str]) -> None:
    signature = inspect.signature(cls)
    meant = documented(cls)
    for one in fields(kind):
        assert one.name in signature.parameters
        if one.name not in differing:
            assert signature.parameters[one.name].default in (one.default, inspect.Parameter.empty)
            assert meant[one.name] == one.metadata["meaning"]


@pytest.mark.parametrize(
    ("cls", "kind", "differing"),
    [
        (RdKafkaProducer, ProducerOptions, {"min_queued_messages"}),
        (RdKafkaSimpleConsumer, ConsumerOptions, {"queued_max_messages"}),
    ],
)
def test_those_on_librdkafka_too(cls: type[Any], kind: type[Settings], differing: set[str]) -> None:
    parameters = inspect.signature(cls).parameters
    found = {one.name for one in fields(kind) if parameters[one.name].default != one.default}
    assert found == differing


@pytest.mark.parametrize("cls", [cls for cls, _, _ in CLASSES])
def test_every_parameter_is_documented(cls: type[Any]) -> None:
    assert documented(cls).keys() == inspect.signature(cls).parameters.keys()


def documented(cls: type[Any]) -> dict[str, str]:
    text = inspect.getdoc(cls) or ""
    found = re.findall(r"^:param (\w+): (.*?)(?=^:|\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: " ".join(meaning.split()) for name, meaning in found}


@pytest.mark.parametrize(
    ("cls", "arguments"),
    [
        (Producer, ProducerArguments),
        (SimpleConsumer, SimpleConsumerArguments),
        (BalancedConsumer, BalancedConsumerArguments),
        (ManagedBalancedConsumer, ManagedBalancedConsumerArguments),
    ],
)
def test_checkers_are_told_of_the_same_arguments(cls: type[Any], arguments: Any) -> None:
    parameters = inspect.signature(cls).parameters
    given = {"topic", "cluster", "consumer_group"}
    found = {name: hint.__forward_arg__ for name, hint in arguments.__annotations__.items()}
    assert {name: one.annotation for name, one in parameters.items() if name not in given} == found


def test_checkers_are_told_of_the_arguments_of_the_producer_for_any_topic() -> None:
    """The overloads of `client.producer` name the serializers, by which they infer types."""
    parameters = inspect.signature(KafkaProducer).parameters
    given = {"cluster", "key_serializer", "value_serializer", "on_delivery"}
    found = {name: hint.__forward_arg__ for name, hint in KafkaProducerArguments.__annotations__.items()}
    assert found.keys() == parameters.keys() - (given - {"on_delivery"})
    assert {name: found[name] for name in found if name not in given} == {
        name: one.annotation for name, one in parameters.items() if name not in given
    }


def test_checkers_are_told_of_the_arguments_of_the_consumer_of_any_topic() -> None:
    """The overloads of `client.consumer` name the deserializers, by which they infer types."""
    parameters = inspect.signature(KafkaConsumer).parameters
    given = {"cluster", "topics", "key_deserializer", "value_deserializer"}
    found = {name: hint.__forward_arg__ for name, hint in KafkaConsumerArguments.__annotations__.items()}
    assert {name: one.annotation for name, one in parameters.items() if name not in given} == found


def test_checkers_are_told_of_the_arguments_of_the_share_consumer() -> None:
    parameters = inspect.signature(ShareConsumer).parameters
    given = {"cluster", "topics", "key_deserializer", "value_deserializer"}
    found = {name: hint.__forward_arg__ for name, hint in ShareConsumerArguments.__annotations__.items()}
    assert {name: one.annotation for name, one in parameters.items() if name not in given} == found
