"""An embedded Kafka cluster for tests, demos and first steps: no JVM, no C library, ready in milliseconds.

It is a `pykafka.testing.FakeCluster`, in Python, with real TCP on 127.0.0.1 and with workers that are threads, or greenlets
in a monkey-patched process. It keeps all in memory; topics that were not created appear with 4 partitions when a client asks
for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple

from pykafka.exceptions import KafkaException
from pykafka.testing import FakeCluster, FakeClusterError
from pykafka.testing.names import ApiName, ErrorName, api_key, api_name, error_code

#: What a broker does for an injected DISCONNECT: it closes the connection instead of answering (librdkafka's number).
DISCONNECT = -195
_DISCONNECTS = ("DISCONNECT", "_TRANSPORT", DISCONNECT)
#: How many partitions a topic has that a test names before it exists.
_PARTITIONS = 4


class EmbeddedClusterError(KafkaException):
    """Raised when the embedded cluster cannot do something; the text says what and why."""


class ReceivedRequest(NamedTuple):
    """One request that a broker received while the cluster tracked requests."""

    broker: int
    api_key: int
    timestamp_us: int

    @property
    def api(self) -> str:
        """The name of the API; its number as text if the cluster has no name for it."""
        return api_name(self.api_key)


@contextmanager
def _trying_to(do: str) -> Iterator[None]:
    try:
        yield
    except (FakeClusterError, OSError) as error:
        raise EmbeddedClusterError(f"cannot {do}: {error}") from error


class EmbeddedCluster:
    """A Kafka cluster inside this process, which can be made to misbehave.

        with EmbeddedCluster(brokers=3) as cluster:
            client = KafkaClient(hosts=cluster.hosts)

    Brokers are numbered from 1. An API is given by name ("Produce"), number, or request class. An error is given by
    Kafka's or librdkafka's name ("NOT_LEADER_OR_FOLLOWER"), its code, or the exception class of `pykafka.exceptions`;
    the name "DISCONNECT" makes the broker close the connection.

    :param brokers: how many
    :param topics: topics to create, with their numbers of partitions
    :raises EmbeddedClusterError: the brokers cannot listen
    """

    def __init__(self, brokers: int = 3, topics: Mapping[str, int] | None = None) -> None:
        try:
            self._fake = FakeCluster(brokers)
        except OSError as error:
            raise EmbeddedClusterError(
                f"cannot start {brokers} brokers ({error}); check the limit of open files"
            ) from error
        # Brokers take 6 s and more, which every test of a member that dies would wait.
        self._fake.set_group_settings(min_session_timeout_ms=1)
        # Kafka 4 has dropped old versions, and this client knows what such a broker means if it lists them for Produce.
        self._fake.speak_old_versions()
        #: Numbers of the brokers.
        self.broker_ids: list[int] = self._fake.broker_ids
        #: Where the brokers listen: `host:port,host:port`, in the order of their numbers.
        self.hosts: str = self._fake.hosts
        for name, partitions in (topics or {}).items():
            self.create_topic(name, partitions)

    def __enter__(self) -> EmbeddedCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except FakeClusterError:
            if error is None:  # else it was reported when it came
                raise

    def __repr__(self) -> str:
        state = "closed" if self._fake.is_closed else self.hosts
        return f"<EmbeddedCluster {state}>"

    def close(self) -> None:
        """Stop all brokers and drop their data; a second call does nothing. A forked child only drops its references."""
        self._fake.close()

    # Topics and partitions

    def create_topic(self, name: str, partitions: int = 4, replication_factor: int = 1) -> None:
        """Create a topic.

        :raises EmbeddedClusterError: it exists already
        """
        with _trying_to(f"create topic {name!r}"):
            self._fake.create_topic(name, partitions, replication_factor)

    def set_topic_error(self, name: str, error: ErrorName) -> None:
        """Make Metadata return an error for one topic, until it is set to "NO_ERROR"."""
        with _trying_to(f"set the error of topic {name!r}"):
            if not self._fake.has_topic(name):
                self._fake.create_topic(name, _PARTITIONS)
            self._fake.set_topic_error(name, error)

    def set_leader(self, topic: str, partition: int, broker: int | None) -> None:
        """Move the leadership of a partition; None leaves it without a leader."""
        with _trying_to(f"make broker {broker} the leader of {topic}-{partition}"):
            self._fake.set_leader(topic, partition, broker)

    def set_follower(self, topic: str, partition: int, broker: int) -> None:
        """Make Fetch refer consumers of a partition to a follower (KIP-392)."""
        with _trying_to(f"make broker {broker} the preferred follower of {topic}-{partition}"):
            self._fake.set_follower(topic, partition, broker)

    def set_follower_watermarks(self, topic: str, partition: int, low: int = -1, high: int = -1) -> None:
        """Set the range of offsets that the follower of a partition serves; -1: the leader's bound. After `set_follower`."""
        with _trying_to(f"set the watermarks of the follower of {topic}-{partition}"):
            self._fake.set_follower_watermarks(topic, partition, low, high)

    # Faults

    def inject_errors(self, api: ApiName, *errors: ErrorName, broker: int | None = None, latency_ms: int = 0) -> None:
        """Make the next requests of an API fail, in the given order; later ones succeed again.

        :param broker: only at this broker; None: wherever the next one arrives
        :param latency_ms: answer so much later than asked; needs `broker`
        """
        if broker is None and latency_ms:
            raise ValueError("latency_ms is kept for each broker: say which by broker=")
        api_key(api)
        if broker is not None:
            self._check(broker)
        codes = [DISCONNECT if error in _DISCONNECTS else error_code(error) for error in errors]
        with _trying_to(f"inject errors into {api}"):
            for code in codes:
                if code == DISCONNECT:
                    self._fake.cut(api, broker=broker, latency_ms=latency_ms)
                else:
                    self._fake.fail(api, code, broker=broker, latency_ms=latency_ms)

    def pending_errors(self, api: ApiName, broker: int) -> int:
        """Return the number of errors injected into one broker that no request has met yet."""
        self._check(broker)
        with _trying_to(f"count the errors injected into broker {broker}"):
            return sum(fault.left or 0 for fault in self._fake.pending(api) if fault.broker == broker)

    def clear_errors(self, api: ApiName) -> None:
        """Drop the errors injected into an API for the whole cluster; those of one broker stay."""
        with _trying_to(f"clear the errors of {api}"):
            for fault in self._fake.pending(api):
                if fault.broker is None:
                    fault.end()

    def set_latency(self, broker: int, milliseconds: int) -> None:
        """Delay the responses of a broker (ms); 0 ends the delay."""
        with _trying_to(f"set the latency of broker {broker}"):
            self._fake.latency(broker, milliseconds)

    def broker_down(self, broker: int) -> None:
        """Close a broker's port and its connections. Its data stays, and so does its leadership."""
        with _trying_to(f"take broker {broker} down"):
            self._fake.stop(broker, noticed=False)

    def broker_up(self, broker: int) -> None:
        """Open a broker's port again."""
        with _trying_to(f"bring broker {broker} up"):
            self._fake.start(broker)

    # What the brokers say of themselves

    def set_rack(self, broker: int, rack: str) -> None:
        """Set the rack of a broker, for Metadata (KIP-36)."""
        with _trying_to(f"set the rack of broker {broker}"):
            self._fake.set_rack(broker, rack)

    def set_coordinator(self, key: str, broker: int, kind: str = "group") -> None:
        """Set the coordinator of a consumer group, or with kind="transaction" of a transactional id."""
        if kind not in ("group", "transaction"):
            raise ValueError(f'kind is {kind!r}: "group" or "transaction"')
        with _trying_to(f"make broker {broker} the coordinator of {kind} {key!r}"):
            self._fake.set_coordinator(key, broker, kind)

    def set_api_versions(self, api: ApiName, minimum: int, maximum: int) -> None:
        """Limit the advertised and supported versions of an API; -1, -1 removes the API.

        :raises ValueError: the brokers have no such API, or not all of these versions
        """
        with _trying_to(f"set the versions of {api} to {minimum}..{maximum}"):
            self._fake.set_versions(api, minimum, maximum)

    # What the brokers received

    def track_requests(self) -> None:
        """Record requests from now on; drop those recorded before."""
        with _trying_to("track requests"):
            self._fake.track_requests()

    def untrack_requests(self) -> None:
        """Stop recording requests, and drop those recorded."""
        with _trying_to("stop tracking requests"):
            self._fake.untrack_requests()

    def requests(self, api: ApiName | None = None) -> list[ReceivedRequest]:
        """Return the requests since `track_requests()`, in order; those of one API if it is given."""
        with _trying_to("list requests"):
            received = self._fake.requests(api)
        return [ReceivedRequest(one.broker, one.api_key, one.timestamp_us) for one in received]

    def _check(self, broker: int) -> None:
        if broker not in self.broker_ids:
            raise ValueError(f"there is no broker {broker}: they are numbered 1 to {len(self.broker_ids)}")
