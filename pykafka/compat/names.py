"""Names that modules of PyKafka 2 had besides documented ones, as programs import them: `pykafka.producer.CompressionType`.

A module of PyKafka 2 was open: what it imported could be imported from it. The modules here ask `find` for a name that
they do not have, so nothing of this is loaded before an application asks.
"""

from __future__ import annotations

import logging
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

from pykafka.common import OffsetType

if TYPE_CHECKING:
    from types import TracebackType

#: The beginning of Kafka's time, naive, as in PyKafka 2.
EPOCH = datetime(1970, 1, 1)
#: The offsets that a request names by a negative number.
MAGIC_OFFSETS = [OffsetType.EARLIEST, OffsetType.LATEST]
#: Whether the package that `use_rdkafka=True` needs is installed.
rdkafka = find_spec("confluent_kafka") is not None

#: The error of sockets.
socket_error = OSError

#: The home of each name that is neither a module nor a class of `pykafka.compat.messages`.
_SOURCES = {
    "__future__": "division print_function",
    "collections": "defaultdict deque namedtuple",
    "datetime": "datetime",
    "functools": "partial",
    "hashlib": "sha1",
    "io": "BytesIO",
    "kazoo.client": "KazooClient",
    "kazoo.exceptions": "NoNodeException NodeExistsError",
    "kazoo.recipe.watchers": "ChildrenWatch",
    "pykafka.common": "CompressionType OffsetType",
    "pykafka.compat.names": "EPOCH MAGIC_OFFSETS rdkafka reraise socket_error",
    "pykafka.network.connection": "BrokerConnection",
    "pykafka.exceptions": """
        ConsumerCoordinatorNotAvailable ConsumerStoppedException ERROR_CODES GroupCoordinatorNotAvailable
        GroupLoadInProgress IllegalGeneration InvalidMessageError InvalidMessageSize KafkaException LeaderNotAvailable
        LeaderNotFoundError MessageSetDecodeFailure MessageSizeTooLarge NoBrokersAvailableError
        NoMessagesConsumedError NoPartitionsForConsumerException NotCoordinatorForConsumer NotCoordinatorForGroup
        NotLeaderForPartition OffsetMetadataTooLarge OffsetOutOfRangeError OffsetRequestFailedError
        OffsetsLoadInProgress PartitionOwnedError ProduceFailureError ProducerQueueFullError ProducerStoppedException
        RebalanceInProgress RequestTimedOut SocketDisconnectedError UnicodeException UnknownError UnknownMemberId
        UnknownTopicOrPartition
    """,
    "pykafka.handlers": "GEventHandler",
    "pykafka.network.in_flight": "ResponseFuture Throttle",
    "pykafka.network.requests": "RequestHandler",
    "pykafka.protocol.message": "Message",
    "pykafka.compat.membership_protocol": "GroupMembershipProtocol RangeProtocol",
    "pykafka.partitioners": "RandomPartitioner random_partitioner",
    "pykafka.compat.balanced_consumer": "BalancedConsumer",
    "pykafka.compat.managed_balanced_consumer": "ManagedBalancedConsumer",
    "pykafka.compat.producer": "OwnedBroker Producer",
    "pykafka.compat.simple_consumer": "SimpleConsumer",
    "pykafka.utils": "ApiVersionAware Serializable msg_protocol_version",
    "pykafka.utils.compat": "IS_PYPY PY3 buffer get_bytes get_string integer_types iteritems iterkeys itervalues range",
    "pykafka.utils.error_handlers": "build_parts_by_error handle_partition_responses raise_error valid_int",
    "pykafka.utils.socket": "recvall_into",
    "queue": "Empty Queue",
    "socket": "gaierror",
    "threading": "Semaphore",
    "uuid": "uuid4",
    "zlib": "crc32",
}
_SOURCE = {name: source for source, names in _SOURCES.items() for name in names.split()}

_MESSAGES = "pykafka.compat.messages"

#: Modules under another name than their own.
_MODULES = {
    "_sys": "sys",
    "compression": "pykafka.utils.compression",
    "dt": "datetime",
    "pysocket": "socket",
    "struct_helpers": "pykafka.utils.struct_helpers",
}

#: Modules that are None if they are not installed.
_OPTIONAL = {"gevent", "lz4f", "snappy", "xxhash"}

#: What each module has by `find` alone: documented classes that live in a higher room, and what any release from 2.0.4 to
#: 2.8 had there. `pykafka.protocol`, as each module of it, also has all of `pykafka.compat.messages`.
NAMES = {
    "pykafka.balancedconsumer": """
        ChildrenWatch ConsumerStoppedException GEventHandler KafkaException KazooClient NoNodeException
        NoPartitionsForConsumerException NodeExistsError OffsetType PartitionOwnedError RangeProtocol SimpleConsumer
        UnicodeException division get_bytes get_string iteritems itertools itervalues log logging range rdkafka
        reraise socket sys time traceback uuid4 valid_int weakref
    """,
    "pykafka.broker": """
        ApiVersionsRequest ApiVersionsResponse BrokerConnection CreateTopicsRequest CreateTopicsResponse
        DeleteTopicsRequest DeleteTopicsResponse DescribeGroupsRequest DescribeGroupsResponse FetchRequest
        FetchResponse HeartbeatRequest HeartbeatResponse JoinGroupRequest JoinGroupResponse LeaderNotAvailable
        LeaveGroupRequest LeaveGroupResponse ListGroupsRequest ListGroupsResponse ListOffsetRequest ListOffsetResponse
        MetadataRequest MetadataResponse OffsetCommitRequest OffsetCommitResponse OffsetFetchRequest
        OffsetFetchResponse OffsetRequest OffsetResponse ProduceResponse RequestHandler SyncGroupRequest
        SyncGroupResponse get_bytes iteritems log logging range time
    """,
    "pykafka.cli.kafka_tools": """
        CreateTopicRequest OffsetType PY3 PartitionOffsetCommitRequest argparse calendar dt iteritems print_function
        pykafka sys time
    """,
    "pykafka.cluster": """
        API_VERSIONS_080 API_VERSIONS_090 ConsumerCoordinatorNotAvailable ConsumerMetadataRequest
        ConsumerMetadataResponse ERROR_CODES GroupCoordinatorNotAvailable GroupCoordinatorRequest
        GroupCoordinatorResponse KazooClient LeaderNotAvailable LeaderNotFoundError NoBrokersAvailableError
        SocketDisconnectedError UnicodeException division get_string iteritems itervalues json log logging random
        range time weakref
    """,
    "pykafka.common": "EPOCH dt log logging",
    "pykafka.connection": """
        SocketDisconnectedError buffer division log logging partial recvall_into socket ssl struct time
    """,
    "pykafka.handlers": """
        Empty Queue RequestHandler ResponseFuture Semaphore Throttle _sys functools gaierror gevent log logging
        namedtuple pysocket socket_error threading time
    """,
    "pykafka.managedbalancedconsumer": """
        BalancedConsumer ERROR_CODES GroupCoordinatorNotAvailable GroupLoadInProgress IllegalGeneration
        MemberAssignment NotCoordinatorForGroup OffsetType RangeProtocol RebalanceInProgress UnicodeException division
        get_string iterkeys log logging sys uuid valid_int weakref
    """,
    "pykafka.membershipprotocol": "ConsumerGroupProtocolMetadata itertools log logging namedtuple",
    "pykafka.partition": """
        EPOCH LeaderNotAvailable LeaderNotFoundError OffsetType PartitionOffsetRequest dt log logging time weakref
    """,
    "pykafka.partitioners": "random sha1",
    "pykafka.producer": """
        CompressionType ERROR_CODES Empty InvalidMessageError InvalidMessageSize KafkaException LeaderNotAvailable
        Message MessageSizeTooLarge NoBrokersAvailableError NotLeaderForPartition OwnedBroker ProduceFailureError
        ProduceRequest Producer ProducerQueueFullError ProducerStoppedException Queue RandomPartitioner
        RequestTimedOut SocketDisconnectedError UnknownTopicOrPartition deque division iteritems itertools itervalues
        log logging msg_protocol_version platform random_partitioner range reraise struct sys threading time traceback
        valid_int weakref
    """,
    "pykafka.protocol": """
        ApiVersionAware CompressionType ERROR_CODES GroupMembershipProtocol MessageSetDecodeFailure MessageSizeTooLarge
        NoMessagesConsumedError Serializable buffer compression crc32 datetime defaultdict integer_types iteritems
        itertools itervalues log logging namedtuple struct struct_helpers
    """,
    "pykafka.simpleconsumer": """
        ConsumerStoppedException EPOCH ERROR_CODES Empty GroupLoadInProgress IllegalGeneration KafkaException
        MAGIC_OFFSETS NotCoordinatorForConsumer NotCoordinatorForGroup NotLeaderForPartition OffsetMetadataTooLarge
        OffsetOutOfRangeError OffsetRequestFailedError OffsetType OffsetsLoadInProgress PartitionFetchRequest
        PartitionOffsetCommitRequest PartitionOffsetFetchRequest PartitionOffsetRequest Queue RebalanceInProgress
        RequestTimedOut Semaphore SocketDisconnectedError UnicodeException UnknownError UnknownMemberId
        UnknownTopicOrPartition build_parts_by_error defaultdict division dt get_bytes get_string
        handle_partition_responses iteritems iterkeys itertools itervalues json log logging raise_error range reraise
        socket sys threading time traceback valid_int weakref
    """,
    "pykafka.topic": """
        BalancedConsumer ManagedBalancedConsumer Producer SimpleConsumer
        EPOCH GEventHandler LeaderNotAvailable LeaderNotFoundError PartitionOffsetRequest defaultdict dt iteritems
        itervalues rdkafka
    """,
    "pykafka.utils.compat": "Empty Queue Semaphore platform",
    "pykafka.utils.compression": "BytesIO IS_PYPY PY3 buffer gzip log logging lz4f range snappy struct xxhash",
    "pykafka.utils.error_handlers": "iteritems",
    "pykafka.utils.struct_helpers": "itertools range",
}


def find(module: str, name: str) -> Any:
    """Return what a module of PyKafka 2 had under a name.

    :param module: the module's full name
    :param name: of a class, a function, another module, ...
    :raises AttributeError: it had no such name, or docs/migrating.md says that it is gone
    """
    names = NAMES.get("pykafka.protocol" if module.startswith("pykafka.protocol.") else module, "").split()
    if module.startswith("pykafka.protocol"):
        messages = ["Message", *import_module(_MESSAGES).__all__]
        if name == "__all__":
            return sorted(messages)
        names += messages
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if name == "log":
        return logging.getLogger(module)
    return _load(name)


def _load(name: str) -> Any:
    if name in _SOURCE:
        return getattr(import_module(_SOURCE[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name[0].isupper():
        return getattr(import_module(_MESSAGES), name)
    if name in _OPTIONAL and find_spec(name) is None:
        return None
    return import_module(name)


def reraise(kind: type[BaseException], value: BaseException | None, traceback: TracebackType | None = None) -> NoReturn:
    """Raise an exception as `sys.exc_info()` gave it."""
    raise (kind() if value is None else value).with_traceback(traceback)
