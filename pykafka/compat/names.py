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

#: Modules under their own names.
_PLAIN = """
    argparse calendar functools gevent gzip itertools json logging lz4f platform pykafka random snappy socket ssl struct sys
    threading time traceback uuid weakref xxhash
"""


def find(module: str, name: str) -> Any:
    """Return what a module of PyKafka 2 had under a name; each of them has the names of all.

    :param module: the module's full name
    :param name: of a class, a function, another module, ...
    :raises AttributeError: none of them had such a name, or docs/migrating.md says that it is gone
    """
    if name in _SOURCE:
        return getattr(import_module(_SOURCE[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _PLAIN.split():
        return None if name in _OPTIONAL and find_spec(name) is None else import_module(name)
    if name == "log":
        return logging.getLogger(module)
    messages = import_module(_MESSAGES)
    if name == "__all__" and module.startswith("pykafka.protocol"):  # else a star import takes the module's own names
        return sorted(["Message", *messages.__all__])
    if name in messages.__all__:
        return getattr(messages, name)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def reraise(kind: type[BaseException], value: BaseException | None, traceback: TracebackType | None = None) -> NoReturn:
    """Raise an exception as `sys.exc_info()` gave it."""
    raise (kind() if value is None else value).with_traceback(traceback)
