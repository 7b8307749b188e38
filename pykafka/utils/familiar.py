"""Options as other Kafka clients call them, for the errors that name ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from pykafka.utils.similar import most_similar

#: Options of producers: {name elsewhere: what to write here}.
PRODUCER = {
    "batch_num_messages": "batch_size",
    "callback": "on_delivery",
    "compression_type": "compression",
    "delivery_report": "on_delivery",
    "dr_cb": "on_delivery",
    "max_batch_size": "batch_size",
    "message_max_bytes": "max_request_size",
    "message_timeout_ms": "delivery_timeout_ms",
    "on_delivery_cb": "on_delivery",
    "queue_buffering_max_kbytes": "buffer_memory",
    "queue_buffering_max_messages": "buffer_memory",
    "queue_buffering_max_ms": "linger_ms",
    "request_required_acks": "acks",
    "request_timeout_ms": "delivery_timeout_ms, or KafkaClient(socket_timeout_ms=)",
    "required_acks": "acks",
    "retries": "max_retries",
    "serializer": "key_serializer and value_serializer",
}
#: Options of consumers.
CONSUMER = {
    "auto_commit_enable": "auto_commit",
    "consumer_group": "group",
    "deserializer": "key_deserializer and value_deserializer",
    "enable_auto_commit": "auto_commit",
    "fetch_max_bytes": "queued_max_bytes",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "group_id": "group",
    "group_protocol": "protocol",
    "group_remote_assignor": "assignor",
    "max_poll_records": "poll(max_records)",
    "membership_protocol": "assignor",
    "partition_assignment_strategy": "assignor",
    "partitions": "assign()",
    "topics": "consumer(*topics)",
}
#: Options of clients.
CLIENT = {
    "api_version": "broker_version, which you need not give",
    "bootstrap_servers": "hosts",
    "brokers": "hosts",
    "request_timeout_ms": "socket_timeout_ms",
    "servers": "hosts",
}
#: Parameters of `KafkaConsumer.poll`, which returns a list: kafka-python and Java return records by partition.
POLL = {"max_messages": "max_records", "num_messages": "max_records", "timeout_ms": "timeout (s)"}
#: What elsewhere is an option of a producer or consumer, and here of the client that makes it.
OF_CLIENT = {
    "bootstrap_servers",
    "client_id",
    "connections_max_idle_ms",
    "sasl_mechanism",
    "security_protocol",
    "socket_timeout_ms",
}


class Elsewhere:
    """A method of other clients that has another name here: the AttributeError says which one.

    :param ours: what to write here
    """

    def __init__(self, ours: str) -> None:
        self._ours = ours
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no {self._name}(); it is {self._ours} here")


def unknown_option(call: str, unknown: Iterable[str], known: Iterable[str], meant: Mapping[str, str]) -> TypeError:
    """Return the error for options that do not exist; it names those that are meant.

    :param call: what got the options, as a program writes it
    :param unknown: the names that do not exist
    :param known: the names that do
    :param meant: what other clients' names are called here, "" for what this client cannot do
    """
    names, hints = sorted(unknown), []
    known = list(known)
    for name in names:
        if name in meant:
            hints.append(f"{name} is {meant[name]} here" if meant[name] else f"this client has no {name} yet")
        elif meant is not CLIENT and name in OF_CLIENT:
            hints.append(f"{CLIENT.get(name, name)} is an option of KafkaClient")
        elif (similar := most_similar(name, known)) is not None:
            hints.append(f"did you mean {similar}?")
    return TypeError("; ".join([f"{call} has no option {', '.join(names)}", *hints]))
