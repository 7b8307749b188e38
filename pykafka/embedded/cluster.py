"""An embedded Kafka cluster for tests, demos and first steps: no JVM, no download, ready in milliseconds.

It is librdkafka's mock cluster, out of the wheel of confluent-kafka: real TCP on 127.0.0.1, served by threads of the
library's own. Its limits: nothing is written to disk, about 5 MB a partition are kept (then the oldest batches go),
topics that were not created appear with 4 partitions when asked for, CreateTopics is not spoken, ApiVersions up to v2.
"""

from __future__ import annotations

import ctypes
import logging
import os
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple

from pykafka.embedded import librdkafka
from pykafka.exceptions import KafkaException
from pykafka.handlers import ThreadingHandler

log = logging.getLogger(__name__)

#: What a broker does for an injected DISCONNECT: it closes the connection instead of answering.
DISCONNECT = -195
#: The APIs of the mock cluster that faults and versions are set for, by name.
API_KEYS = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "JoinGroup": 11,
    "Heartbeat": 12,
    "LeaveGroup": 13,
    "SyncGroup": 14,
    "SaslHandshake": 17,
    "ApiVersions": 18,
    "InitProducerId": 22,
    "OffsetForLeaderEpoch": 23,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "TxnOffsetCommit": 28,
    "SaslAuthenticate": 36,
    "ConsumerGroupHeartbeat": 68,
    "GetTelemetrySubscriptions": 71,
    "PushTelemetry": 72,
}
#: Kafka's names of errors that librdkafka spells in another way.
_KAFKA_NAMES = {
    "UNKNOWN_SERVER_ERROR": -1,
    "DISCONNECT": DISCONNECT,
    "NONE": 0,
    "CORRUPT_MESSAGE": 2,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "INVALID_FETCH_SIZE": 4,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "MESSAGE_TOO_LARGE": 10,
    "NETWORK_EXCEPTION": 13,
    "INVALID_TOPIC_EXCEPTION": 17,
    "RECORD_LIST_TOO_LARGE": 18,
}
#: How long the first member of a group waits for others: brokers take 3 s, which every test with a group would wait.
_FIRST_REBALANCE_MS = 100
#: After a command its thread takes back the signal that it was given, and the next command's with it where that is there
#: already, which then waits until the thread looks by itself, after up to a second (librdkafka 2.16). This long (s) is
#: many times what it needs.
_COMMAND_PAUSE_S = 0.0002

Api = int | str | type
Fault = int | str | type


class EmbeddedClusterError(KafkaException):
    """Raised when the embedded cluster cannot do something; the text has librdkafka's reason."""


class ReceivedRequest(NamedTuple):
    """One request that a broker received while the cluster tracked requests."""

    broker: int
    api_key: int
    timestamp_us: int

    @property
    def api(self) -> str:
        """The name of the API; its number as text if the cluster has no name for it."""
        return next((name for name, key in API_KEYS.items() if key == self.api_key), str(self.api_key))


class EmbeddedCluster:
    """A Kafka cluster inside this process, which can be made to misbehave.

        with EmbeddedCluster(brokers=3) as cluster:
            client = KafkaClient(hosts=cluster.hosts)

    Brokers are numbered from 1. An API is given by name ("Produce"), number, or request class. An error is given by
    Kafka's or librdkafka's name ("NOT_LEADER_OR_FOLLOWER"), its code, or the exception class of `pykafka.exceptions`;
    the name "DISCONNECT" makes the broker close the connection.

    :param brokers: how many
    :param topics: topics to create, with their numbers of partitions
    :raises ImportError: confluent-kafka is not installed (extra `embedded`)
    :raises EmbeddedClusterError: librdkafka cannot start it
    """

    def __init__(self, brokers: int = 3, topics: Mapping[str, int] | None = None) -> None:
        if brokers < 1:
            raise ValueError(f"brokers is {brokers}: a cluster has at least one")
        self._lib = librdkafka.load()
        try:
            self._handle = librdkafka.new_handle({"log_level": "2"})
        except OSError as error:
            raise EmbeddedClusterError(str(error)) from error
        self._cluster: int | None = self._lib.rd_kafka_mock_cluster_new(self._handle, brokers)
        if not self._cluster:
            self._lib.rd_kafka_destroy(self._handle)
            raise EmbeddedClusterError(f"librdkafka cannot start {brokers} brokers; check the limit of open files")
        # A forked child has the object but not librdkafka's threads.
        self._pid = os.getpid()
        self._finish = weakref.finalize(self, _destroy, self._handle, self._cluster, self._pid)
        #: Numbers of the brokers.
        self.broker_ids: list[int] = list(range(1, brokers + 1))
        #: Where the brokers listen: `host:port,host:port`, in the order of their numbers.
        self.hosts: str = self._lib.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._lib.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, _FIRST_REBALANCE_MS)
        # It advertises the first versions of these with tagged fields, but closes the connection, or answers without tags.
        for api, highest in {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "LeaveGroup": 2}.items():
            self.set_api_versions(api, 0, highest)
        # From 10 on it names the leader beside an error, and crashes the process where there is none (librdkafka 2.16).
        self.set_api_versions("Produce", 0, 9)
        # As brokers without a plugin for metrics of clients; -1: it lists no version.
        for api in ("GetTelemetrySubscriptions", "PushTelemetry"):
            self.set_api_versions(api, -1, -1)
        for name, partitions in (topics or {}).items():
            self.create_topic(name, partitions)

    def __enter__(self) -> EmbeddedCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = self.hosts if self._finish.alive else "closed"
        return f"<EmbeddedCluster {state}>"

    def close(self) -> None:
        """Stop all brokers and drop their data; a second call does nothing. A forked child only drops its references."""
        self._cluster = None
        self._finish()

    # Topics and partitions

    def create_topic(self, name: str, partitions: int = 4, replication_factor: int = 1) -> None:
        """Create a topic.

        :raises EmbeddedClusterError: it exists already
        """
        if partitions < 1:
            raise ValueError(f"partitions is {partitions}: a topic has at least one")
        if not 1 <= replication_factor <= len(self.broker_ids):
            raise ValueError(f"replication_factor is {replication_factor}: there are {len(self.broker_ids)} brokers")
        code = self._lib.rd_kafka_mock_topic_create(self._mock, name.encode(), partitions, replication_factor)
        self._check(code, f"create topic {name!r}; it may exist already")

    def set_topic_error(self, name: str, error: Fault) -> None:
        """Make Metadata return an error for one topic, until it is set to "NO_ERROR"."""
        self._lib.rd_kafka_mock_topic_set_error(self._mock, name.encode(), _error_code(error))
        self._check(0, "set the error of a topic")

    def set_leader(self, topic: str, partition: int, broker: int | None) -> None:
        """Move the leadership of a partition; None leaves it without a leader."""
        target = -1 if broker is None else self._broker(broker)
        code = self._lib.rd_kafka_mock_partition_set_leader(self._mock, topic.encode(), partition, target)
        self._check(code, f"make broker {broker} the leader of {topic}-{partition}")

    def set_follower(self, topic: str, partition: int, broker: int) -> None:
        """Make Fetch refer consumers of a partition to a follower (KIP-392)."""
        code = self._lib.rd_kafka_mock_partition_set_follower(
            self._mock, topic.encode(), partition, self._broker(broker)
        )
        self._check(code, f"make broker {broker} the preferred follower of {topic}-{partition}")

    def set_follower_watermarks(self, topic: str, partition: int, low: int = -1, high: int = -1) -> None:
        """Set the range of offsets that the follower of a partition serves; -1: the leader's bound."""
        code = self._lib.rd_kafka_mock_partition_set_follower_wmarks(self._mock, topic.encode(), partition, low, high)
        self._check(code, f"set the watermarks of the follower of {topic}-{partition}")

    # Faults

    def inject_errors(self, api: Api, *errors: Fault, broker: int | None = None, latency_ms: int = 0) -> None:
        """Make the next requests of an API fail, in the given order; later ones succeed again.

        :param broker: only at this broker; None: wherever the next one arrives
        :param latency_ms: answer so much later than asked; needs `broker`
        """
        key, codes = _api_key(api), [_error_code(error) for error in errors]
        if broker is None:
            if latency_ms:
                raise ValueError("latency_ms is kept for each broker: say which by broker=")
            self._lib.rd_kafka_mock_push_request_errors_array(
                self._mock, key, len(codes), librdkafka.error_array(codes)
            )
            return
        pairs = [ctypes.c_int(number) for code in codes for number in (code, latency_ms)]
        push = self._lib.rd_kafka_mock_broker_push_request_error_rtts
        code = push(self._mock, self._broker(broker), key, ctypes.c_size_t(len(codes)), *pairs)
        self._check(code, f"inject errors into broker {broker}")

    def pending_errors(self, api: Api, broker: int) -> int:
        """Return the number of errors injected into one broker that no request has met yet."""
        count = ctypes.c_size_t(0)
        code = self._lib.rd_kafka_mock_broker_error_stack_cnt(
            self._mock, self._broker(broker), _api_key(api), ctypes.byref(count)
        )
        self._check(code, f"count the errors injected into broker {broker}")
        return count.value

    def clear_errors(self, api: Api) -> None:
        """Drop the errors injected into an API for the whole cluster; those of one broker stay."""
        self._lib.rd_kafka_mock_clear_request_errors(self._mock, _api_key(api))

    def set_latency(self, broker: int, milliseconds: int) -> None:
        """Delay the responses of a broker (ms); 0 ends the delay."""
        if milliseconds < 0:
            raise ValueError(f"a latency of {milliseconds} ms is not possible")
        code = self._lib.rd_kafka_mock_broker_set_rtt(self._mock, self._broker(broker), milliseconds)
        self._check(code, f"set the latency of broker {broker}")

    def broker_down(self, broker: int) -> None:
        """Close a broker's port and its connections. Its data stays, and so does its leadership."""
        self._check(
            self._lib.rd_kafka_mock_broker_set_down(self._mock, self._broker(broker)), f"take broker {broker} down"
        )

    def broker_up(self, broker: int) -> None:
        """Open a broker's port again."""
        self._check(
            self._lib.rd_kafka_mock_broker_set_up(self._mock, self._broker(broker)), f"bring broker {broker} up"
        )

    # What the brokers say of themselves

    def set_rack(self, broker: int, rack: str) -> None:
        """Set the rack of a broker, for Metadata (KIP-36)."""
        code = self._lib.rd_kafka_mock_broker_set_rack(self._mock, self._broker(broker), rack.encode())
        self._check(code, f"set the rack of broker {broker}")

    def set_coordinator(self, key: str, broker: int, kind: str = "group") -> None:
        """Set the coordinator of a consumer group, or with kind="transaction" of a transactional id."""
        if kind not in ("group", "transaction"):
            raise ValueError(f'kind is {kind!r}: "group" or "transaction"')
        code = self._lib.rd_kafka_mock_coordinator_set(self._mock, kind.encode(), key.encode(), self._broker(broker))
        self._check(code, f"make broker {broker} the coordinator of {kind} {key!r}")

    def set_api_versions(self, api: Api, minimum: int, maximum: int) -> None:
        """Limit the advertised and supported versions of an API; -1, -1 removes the API."""
        code = self._lib.rd_kafka_mock_set_apiversion(self._mock, _api_key(api), minimum, maximum)
        self._check(code, f"set the versions of {api} to {minimum}..{maximum}")

    # What the brokers received

    def track_requests(self) -> None:
        """Start to record requests; drop those recorded before."""
        self._lib.rd_kafka_mock_clear_requests(self._mock)
        self._lib.rd_kafka_mock_start_request_tracking(self._mock)

    def untrack_requests(self) -> None:
        """Stop to record requests, and drop those recorded."""
        self._lib.rd_kafka_mock_stop_request_tracking(self._mock)
        self._lib.rd_kafka_mock_clear_requests(self._mock)

    def requests(self, api: Api | None = None) -> list[ReceivedRequest]:
        """Return the requests since `track_requests()`, in order; those of one API if it is given."""
        count = ctypes.c_size_t(0)
        array = self._lib.rd_kafka_mock_get_requests(self._mock, ctypes.byref(count))
        if not array:
            return []
        try:
            received = [
                ReceivedRequest(
                    self._lib.rd_kafka_mock_request_id(array[index]),
                    self._lib.rd_kafka_mock_request_api_key(array[index]),
                    self._lib.rd_kafka_mock_request_timestamp(array[index]),
                )
                for index in range(count.value)
            ]
        finally:
            self._lib.rd_kafka_mock_request_destroy_array(array, count.value)
        return received if api is None else [one for one in received if one.api_key == _api_key(api)]

    @property
    def _mock(self) -> int:
        if self._cluster is None or os.getpid() != self._pid:
            raise EmbeddedClusterError(
                "the embedded cluster is closed, or was started by the parent of this process: start another"
            )
        return self._cluster

    def _broker(self, number: int) -> int:
        if number not in self.broker_ids:
            raise ValueError(f"there is no broker {number}: they are numbered 1 to {len(self.broker_ids)}")
        return number

    @staticmethod
    def _check(code: int, what: str) -> None:
        ThreadingHandler().sleep(_COMMAND_PAUSE_S)
        if code:
            reason = f"{librdkafka.error_name(code)}: {librdkafka.error_text(code)}"
            raise EmbeddedClusterError(f"cannot {what} ({reason})")


def _destroy(handle: int, cluster: int, owner: int) -> None:
    # librdkafka's threads are not in a forked child: waiting for them there would never end.
    if os.getpid() == owner:
        library = librdkafka.load()
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(handle)


def _api_key(api: Api) -> int:
    if isinstance(api, int):
        return api
    if isinstance(api, str):
        key = API_KEYS.get(api.removesuffix("Request"))
    else:
        key = getattr(api, "api_key", None)
    if key is None:
        raise ValueError(f"unknown API {api!r}: use a number, a request class, or one of {', '.join(API_KEYS)}")
    return key


def _error_code(error: Fault) -> int:
    if isinstance(error, int):
        return error
    if isinstance(error, str):
        code = _KAFKA_NAMES.get(error, librdkafka.error_codes().get(error))
    else:
        code = getattr(error, "ERROR_CODE", None)
    if code is None:
        raise ValueError(f"unknown error {error!r}: use Kafka's name, its code, or an exception class with ERROR_CODE")
    return code
