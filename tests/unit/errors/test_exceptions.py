"""The error tree: what old `except` clauses and new code rely on."""

from __future__ import annotations

import copy
import pickle

import pytest

from pykafka import exceptions
from pykafka.exceptions import (
    ERROR_CODES,
    KafkaException,
    MessagesNotDelivered,
    OffsetsNotCommitted,
    PartitionOwnedError,
    ProtocolClientError,
    SocketDisconnectedError,
    UnknownError,
    UnknownErrorCode,
    UnknownTopicOrPartition,
    error_for,
)

DOCUMENTED = {
    "ConsumerStoppedException": "KafkaException",
    "NoPartitionsForConsumerException": "ConsumerStoppedException",
    "NoMessagesConsumedError": "KafkaException",
    "OffsetRequestFailedError": "KafkaException",
    "PartitionOwnedError": "KafkaException",
    "ProduceFailureError": "KafkaException",
    "ProducerQueueFullError": "KafkaException",
    "ProducerStoppedException": "KafkaException",
    "SocketDisconnectedError": "KafkaException",
    "ProtocolClientError": "KafkaException",
    "NoBrokersAvailableError": "KafkaException",
    "LeaderNotFoundError": "KafkaException",
    "MessageSetDecodeFailure": "KafkaException",
    "RdKafkaException": "KafkaException",
    "RdKafkaStoppedException": "RdKafkaException",
    "MessagesNotDelivered": "ProduceFailureError",
    "ConnectionRefused": "SocketDisconnectedError",
    "NameResolutionError": "SocketDisconnectedError",
    "TlsError": "SocketDisconnectedError",
    "NotKafkaError": "SocketDisconnectedError",
    "CorrelationIdError": "SocketDisconnectedError",
    "FrameTooLargeError": "SocketDisconnectedError",
}

DOCUMENTED_CODES = {
    "UnknownError": -1,
    "OffsetOutOfRangeError": 1,
    "InvalidMessageError": 2,
    "UnknownTopicOrPartition": 3,
    "InvalidMessageSize": 4,
    "LeaderNotAvailable": 5,
    "NotLeaderForPartition": 6,
    "RequestTimedOut": 7,
    "MessageSizeTooLarge": 10,
    "OffsetMetadataTooLarge": 12,
    "OffsetsLoadInProgress": 14,
    "GroupLoadInProgress": 14,
    "ConsumerCoordinatorNotAvailable": 15,
    "GroupCoordinatorNotAvailable": 15,
    "NotCoordinatorForConsumer": 16,
    "NotCoordinatorForGroup": 16,
    "InvalidTopic": 17,
    "IllegalGeneration": 22,
    "InconsistentGroupProtocol": 23,
    "UnknownMemberId": 25,
    "InvalidSessionTimeout": 26,
    "RebalanceInProgress": 27,
    "TopicAuthorizationFailed": 29,
    "GroupAuthorizationFailed": 30,
}


@pytest.mark.parametrize(("name", "parent"), DOCUMENTED.items())
def test_the_tree_is_as_documented(name: str, parent: str) -> None:
    assert issubclass(getattr(exceptions, name), getattr(exceptions, parent))
    assert name in (exceptions.__doc__ or "")


@pytest.mark.parametrize(("name", "code"), DOCUMENTED_CODES.items())
def test_codes_have_their_documented_names(name: str, code: int) -> None:
    cls = getattr(exceptions, name)
    assert issubclass(cls, ProtocolClientError)
    assert code == cls.ERROR_CODE
    assert ERROR_CODES[code] is cls


def test_timeouts_are_timeouts_of_python_too() -> None:
    assert issubclass(exceptions.ResponseTimeoutError, TimeoutError)
    assert issubclass(exceptions.ConnectTimeoutError, TimeoutError)
    assert not issubclass(exceptions.UnicodeException, KafkaException)


@pytest.mark.parametrize("code", sorted(ERROR_CODES))
def test_every_code_says_what_it_means(code: int) -> None:
    error = error_for(code, broker="b:1", topic="t", partition=0, api="Fetch")
    assert type(error) is ERROR_CODES[code]
    assert (error.broker, error.topic, error.partition, error.api) == ("b:1", "t", 0, "Fetch")
    assert (
        str(error)
        == f"{error.description} [Kafka error {code} {error.NAME}] (broker=b:1, topic=t, partition=0, api=Fetch)"
    )
    assert error.description.endswith(".") or ":" in error.description
    assert error.transient is error.retriable
    assert error.retriable or not error.invalid_metadata


def test_what_the_broker_says_goes_before_what_the_code_means() -> None:
    assert str(error_for(44, "too many partitions")) == "too many partitions [Kafka error 44 POLICY_VIOLATION]"
    assert error_for(44, None).description in str(error_for(44, ""))


def test_a_number_that_is_not_known_is_an_unknown_error_that_carries_it() -> None:
    error = error_for(999, topic="t")
    assert isinstance(error, UnknownErrorCode)
    assert isinstance(error, UnknownError)
    assert error.ERROR_CODE == 999
    assert "newer than this client" in str(error)
    assert "[Kafka error 999] (topic=t)" in str(error)
    assert UnknownError.ERROR_CODE == -1


def test_no_error_has_no_error() -> None:
    with pytest.raises(ValueError, match="no error"):
        error_for(0)


def test_context_is_filled_in_where_it_is_missing() -> None:
    error = KafkaException("what", topic="t")
    assert error.with_context(topic="other", partition=0, broker="b") is error
    assert str(error) == "what (broker=b, topic=t, partition=0)"
    assert str(KafkaException()) == ""
    assert str(KafkaException(broker="b")) == "broker=b"


@pytest.mark.parametrize(
    "error",
    [
        KafkaException("what", topic="t", ledger=[("b:1", "refused")]),
        UnknownTopicOrPartition(topic="t"),
        error_for(999),
        PartitionOwnedError(7, "owned"),
        MessagesNotDelivered("t", [("m", error_for(10))]),
        OffsetsNotCommitted("not committed", {("t", 0): 5}),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_can_be_copied_and_pickled(error: KafkaException) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), error.again()):
        assert again is not error
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert (again.args, again.topic, again.ledger) == (error.args, error.topic, error.ledger)


def test_a_copy_to_raise_anew_gathers_no_tracebacks() -> None:
    error = SocketDisconnectedError("gone")
    with pytest.raises(SocketDisconnectedError):
        raise error
    assert error.again().__traceback__ is None


def test_what_was_not_delivered_is_counted_by_reason() -> None:
    failures = [(f"m{index}", error_for(code)) for index, code in enumerate([10, 10, 7, 29, 30])]
    error = MessagesNotDelivered("t", failures)
    assert error.failures == failures
    assert str(error).startswith("5 messages were not acknowledged")
    assert "2 by MessageSizeTooLarge" in str(error)
    assert "and 1 reasons more" in str(error)


def test_a_partition_that_is_owned_is_told() -> None:
    error = PartitionOwnedError("partition 7")
    assert error.partition == "partition 7"
