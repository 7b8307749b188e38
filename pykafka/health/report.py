"""The reports of `client.health()`, `consumer.health()` and `producer.health()`, as data: no request is behind them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Problem:
    """Something that is wrong.

    :param kind: one of `Why`, or "closed", "worker-ended", "held", "commits-fail", "not-a-member"
    :param text: what, in one sentence
    :param remedy: what to do about it, in one sentence
    :param since: how long it has lasted (s), as far as is known; None if that is not known
    :param restart_helps: whether a restart of the process mends it, and nothing less does
    :param unready: whether it keeps the client from its work, so that `/readyz` fails
    """

    kind: str
    text: str
    remedy: str
    since: float | None = None
    restart_helps: bool = False
    unready: bool = True


@dataclass(frozen=True)
class Report:
    """The part that all reports share.

    :param problems: what is wrong; empty for nothing
    """

    problems: tuple[Problem, ...]

    @property
    def alive(self) -> bool:
        """Whether nothing is wrong that a restart would mend."""
        return not any(problem.restart_helps for problem in self.problems)

    @property
    def ready(self) -> bool:
        """Whether nothing keeps it from its work."""
        return not any(problem.unready for problem in self.problems)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dicts, lists, numbers and texts, as JSON takes them."""
        found: dict[str, Any] = {"alive": self.alive, "ready": self.ready, **asdict(self)}
        return found


@dataclass(frozen=True)
class BrokerHealth:
    """A broker, as this client sees it.

    :param id: its number
    :param address: "host:port"
    :param reachable: whether a connection is up, or with `probe=True` whether it has answered; None: none was needed yet
    :param connected_s: how long a connection has been up (s); None if there is none
    :param error: why no connection is up; None if one is, or none was needed
    :param failing_s: for how long at least no connection has been up although one was needed (s); None if that is not known
    """

    id: int
    address: str
    reachable: bool | None
    connected_s: float | None
    error: str | None = None
    failing_s: float | None = None


@dataclass(frozen=True)
class MemberHealth:
    """A membership in a group.

    :param group: its name
    :param protocol: "classic", "consumer", "zookeeper", or "auto" before the choice
    :param member_id: of this member; "" while it has none
    :param generation: the generation, or the member epoch; -1 out of the group
    :param stable: whether it has its assignment, and no rebalance is under way as far as it knows
    :param coordinator: the address of the coordinator; None while that is not known
    :param heartbeat_s: since the coordinator has taken a heartbeat last (s); None before the first
    """

    group: str
    protocol: str
    member_id: str
    generation: int
    stable: bool
    coordinator: str | None
    heartbeat_s: float | None


@dataclass(frozen=True)
class PartitionHealth:
    """A partition of a consumer.

    :param topic: its topic
    :param partition: its number
    :param position: offset of the next record; None while that is not known
    :param end: the offset where it ends for this consumer, as of the last answer; None before that
    :param lag: offsets between them; None if one is unknown
    :param lag_seconds: age of the last record handed out; 0.0 at the end; None before the first record
    :param committed: the offset that this consumer has committed or found last; None for none
    :param paused: whether the application has paused it
    :param buffered: records that are fetched, and not handed out yet
    :param still_s: how long the position has stood still although it is behind the end (s); None if it moves
    """

    topic: str
    partition: int
    position: int | None
    end: int | None
    lag: int | None
    lag_seconds: float | None
    committed: int | None
    paused: bool
    buffered: int
    still_s: float | None


@dataclass(frozen=True)
class ConsumerHealth(Report):
    """A consumer.

    :param name: what it reads
    :param group: its group; None for none
    :param member: the membership; None for none
    :param partitions: that it reads
    :param last_poll_s: since the application has asked for a record last (s), give or take five seconds; None: it has not yet
    :param last_commit_s: since a commit has succeeded last (s); None: none has
    :param buffered_bytes: what is fetched, and not handed out yet
    :param buffer_limit_bytes: fetching pauses beyond
    """

    name: str
    group: str | None
    member: MemberHealth | None
    partitions: tuple[PartitionHealth, ...]
    last_poll_s: float | None
    last_commit_s: float | None
    buffered_bytes: int
    buffer_limit_bytes: int


@dataclass(frozen=True)
class ProducerHealth(Report):
    """A producer.

    :param name: what it writes to
    :param queued_messages: not acknowledged yet
    :param queued_bytes: that these take
    :param buffer_limit_bytes: `produce()` waits or raises beyond
    :param oldest_s: age of the oldest unacknowledged message (s); None if there is none
    :param oldest_partition: of that message, as "topic-0"
    :param transactional_id: of a transactional producer; None for any other
    :param transaction: the state of its transactions; None likewise
    """

    name: str
    queued_messages: int
    queued_bytes: int
    buffer_limit_bytes: int
    oldest_s: float | None
    oldest_partition: str | None
    transactional_id: str | None
    transaction: str | None


@dataclass(frozen=True)
class ShareConsumerHealth(Report):
    """A member of a share group.

    :param name: what it reads
    :param group: its share group
    :param member: the membership; None before the first subscription
    :param partitions: that it takes records from, as "topic-0"; other members may take from them, too
    :param buffered: records that are acquired, and not handed out yet
    :param unacknowledged: records that are handed out, and whose acknowledgement has no outcome yet
    :param lock_timeout_ms: how long the broker keeps acquired records for this member (ms); None before the first ones
    :param last_poll_s: since the application has asked for a record last (s); None: it has not yet
    :param errors: that the next calls raise, in order
    """

    name: str
    group: str
    member: MemberHealth | None
    partitions: tuple[str, ...]
    buffered: int
    unacknowledged: int
    lock_timeout_ms: int | None
    last_poll_s: float | None
    errors: tuple[str, ...]


@dataclass(frozen=True)
class ClientHealth(Report):
    """A client, with all that was made from it, and is open.

    :param brokers: that it knows
    :param consumers: `KafkaConsumer`s, and those of PyKafka 2
    :param producers: `KafkaProducer`s, and those of PyKafka 2
    :param share_consumers: members of share groups
    """

    brokers: tuple[BrokerHealth, ...]
    consumers: tuple[ConsumerHealth, ...]
    producers: tuple[ProducerHealth, ...]
    share_consumers: tuple[ShareConsumerHealth, ...] = ()
