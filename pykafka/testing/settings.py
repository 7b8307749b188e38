"""The settings of topics, brokers, groups and clients' metrics: defaults of Kafka 4.4, and what checks their values."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple


class Kind(IntEnum):
    """The type of a setting, by the numbers of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_BITS: Final = {Kind.SHORT: 15, Kind.INT: 31, Kind.LONG: 63}


class Setting(NamedTuple):
    """One setting.

    :param name: the name
    :param kind: its type
    :param default: its value if no broker's or administrator's says otherwise; None: it is not set
    :param allowed: "0..9" and "0.." for numbers, "compact|delete" for words, of lists too; "*" is any value
    :param synonyms: the brokers' settings that give its default, the first one that is set
    :param is_read_only: whether brokers read it at their start alone
    """

    name: str
    kind: Kind
    default: str | None
    allowed: str = "*"
    synonyms: tuple[str, ...] = ()
    is_read_only: bool = False

    @property
    def is_sensitive(self) -> bool:
        """Whether brokers never show its value."""
        return self.kind == Kind.PASSWORD

    def problem(self, value: str) -> str | None:
        """Return what is wrong with a value, in Kafka's words; None: nothing is."""
        problem = self._parsed(value) or self._refused(value)
        separator = ": " if problem else ""
        return f"Invalid value {value} for configuration {self.name}{separator}{problem}" if problem else None

    def _parsed(self, value: str) -> str | None:
        if self.kind == Kind.BOOLEAN:
            return None if value.lower() in ("true", "false") else "Expected value to be either true or false"
        try:
            if self.kind == Kind.DOUBLE:
                float(value)
            elif self.kind in _BITS and not -(1 << _BITS[self.kind]) <= int(value) < 1 << _BITS[self.kind]:
                return f"Not a number of type {self.kind.name}"
        except ValueError:
            return f"Not a number of type {self.kind.name}"
        return None

    def _refused(self, value: str) -> str | None:
        lowest, dots, highest = self.allowed.partition("..")
        if not dots:
            choices = self.allowed.split("|")
            known = self.allowed == "*" or all(word.strip() in choices for word in value.split(",") if word.strip())
            return None if known else f"String must be one of: {', '.join(choices)}"
        if float(value) < int(lowest):
            return f"Value must be at least {lowest}"
        return f"Value must be no more than {highest}" if highest and float(value) > int(highest) else None


def _table(text: str, *, is_read_only: bool = False) -> dict[str, Setting]:
    """Return settings by name.

    :param text: a line for each: name, type, default ("null": it is not set), what is allowed, synonyms
    :param is_read_only: whether brokers read them at their start alone
    """
    found = {}
    for line in text.strip().splitlines():
        name, kind, default, *more = line.split()
        value = {"null": None, '""': ""}.get(default, default)
        found[name] = Setting(name, Kind[kind], value, more[0] if more else "*", tuple(more[1:]), is_read_only)
    return found


TOPIC_SETTINGS: Final = _table("""
    cleanup.policy                          LIST    delete compact|delete log.cleanup.policy
    compression.gzip.level                  INT     -1 -1..9 compression.gzip.level
    compression.lz4.level                   INT     9 1..17 compression.lz4.level
    compression.type                        STRING  producer uncompressed|zstd|lz4|snappy|gzip|producer compression.type
    compression.zstd.level                  INT     3 -131072..22 compression.zstd.level
    delete.retention.ms                     LONG    86400000 0.. log.cleaner.delete.retention.ms
    errors.deadletterqueue.group.enable     BOOLEAN false *
    file.delete.delay.ms                    LONG    60000 0.. log.segment.delete.delay.ms
    flush.messages                          LONG    9223372036854775807 1.. log.flush.interval.messages
    flush.ms                                LONG    9223372036854775807 0.. log.flush.interval.ms
    follower.replication.throttled.replicas LIST    "" *
    index.interval.bytes                    INT     4096 0.. log.index.interval.bytes
    leader.replication.throttled.replicas   LIST    "" *
    local.retention.bytes                   LONG    -2 -2.. log.local.retention.bytes
    local.retention.ms                      LONG    -2 -2.. log.local.retention.ms
    max.compaction.lag.ms                   LONG    9223372036854775807 1.. log.cleaner.max.compaction.lag.ms
    max.decompressed.message.bytes          INT     2147483639 0.. max.decompressed.message.bytes
    max.message.bytes                       INT     1048588 0.. message.max.bytes
    message.timestamp.after.max.ms          LONG    3600000 0.. log.message.timestamp.after.max.ms
    message.timestamp.before.max.ms         LONG    9223372036854775807 0.. log.message.timestamp.before.max.ms
    message.timestamp.type                  STRING  CreateTime CreateTime|LogAppendTime log.message.timestamp.type
    min.cleanable.dirty.ratio               DOUBLE  0.5 0..1 log.cleaner.min.cleanable.ratio
    min.compaction.lag.ms                   LONG    0 0.. log.cleaner.min.compaction.lag.ms
    min.insync.replicas                     INT     1 1.. min.insync.replicas
    preallocate                             BOOLEAN false * log.preallocate
    remote.copy.lag.bytes                   LONG    -1 -1.. log.remote.copy.lag.bytes
    remote.copy.lag.ms                      LONG    0 -1.. log.remote.copy.lag.ms
    remote.log.copy.disable                 BOOLEAN false *
    remote.log.delete.on.disable            BOOLEAN false *
    remote.storage.enable                   BOOLEAN false *
    retention.bytes                         LONG    -1 * log.retention.bytes
    retention.ms                            LONG    604800000 -1.. log.retention.ms log.retention.minutes log.retention.hours
    segment.bytes                           INT     1073741824 1048576.. log.segment.bytes
    segment.index.bytes                     INT     10485760 4.. log.index.size.max.bytes
    segment.jitter.ms                       LONG    0 0.. log.roll.jitter.ms log.roll.jitter.hours
    segment.ms                              LONG    604800000 1.. log.roll.ms log.roll.hours
    unclean.leader.election.enable          BOOLEAN false * unclean.leader.election.enable
""")


def _of_topics() -> Iterator[Setting]:
    # The brokers' settings that give topics their defaults have types, checks and defaults of these.
    for setting in TOPIC_SETTINGS.values():
        if len(setting.synonyms) == 1:
            yield setting._replace(name=setting.synonyms[0], synonyms=())


_FIXED: Final = _table(
    """
    auto.create.topics.enable                 BOOLEAN true
    auto.leader.rebalance.enable              BOOLEAN true
    controlled.shutdown.enable                BOOLEAN true
    delete.topic.enable                       BOOLEAN true
    log.cleaner.enable                        BOOLEAN true
    transaction.two.phase.commit.enable       BOOLEAN false
    authorizer.class.name                     STRING  ""
    broker.rack                               STRING  null
    inter.broker.listener.name                STRING  PLAINTEXT
    security.inter.broker.protocol            STRING  PLAINTEXT
    broker.id                                 INT     -1
    fetch.max.bytes                           INT     57671680
    group.consumer.heartbeat.interval.ms      INT     5000
    group.consumer.max.heartbeat.interval.ms  INT     15000
    group.consumer.max.session.timeout.ms     INT     60000
    group.consumer.max.size                   INT     2147483647
    group.consumer.min.heartbeat.interval.ms  INT     5000
    group.consumer.min.session.timeout.ms     INT     45000
    group.consumer.session.timeout.ms         INT     45000
    group.initial.rebalance.delay.ms          INT     3000
    group.max.session.timeout.ms              INT     1800000
    group.max.size                            INT     2147483647
    group.min.session.timeout.ms              INT     6000
    group.share.delivery.count.limit          INT     5
    group.share.heartbeat.interval.ms         INT     5000
    group.share.max.size                      INT     200
    group.share.partition.max.record.locks    INT     2000
    group.share.record.lock.duration.ms       INT     30000
    group.share.session.timeout.ms            INT     45000
    log.retention.hours                       INT     168
    log.retention.minutes                     INT     null
    log.roll.hours                            INT     168
    log.roll.jitter.hours                     INT     0
    max.incremental.fetch.session.cache.slots INT     1000
    node.id                                   INT     null
    num.partitions                            INT     1
    offset.metadata.max.bytes                 INT     4096
    offsets.retention.minutes                 INT     10080
    offsets.topic.num.partitions              INT     50
    queued.max.requests                       INT     500
    replica.fetch.max.bytes                   INT     1048576
    request.timeout.ms                        INT     30000
    socket.request.max.bytes                  INT     104857600
    transaction.max.timeout.ms                INT     900000
    transaction.state.log.min.isr             INT     2
    transaction.state.log.num.partitions      INT     50
    transactional.id.expiration.ms            INT     604800000
    default.replication.factor                SHORT   1
    offsets.topic.replication.factor          SHORT   3
    transaction.state.log.replication.factor  SHORT   3
    connections.max.idle.ms                   LONG    600000
    connections.max.reauth.ms                 LONG    0
    log.retention.check.interval.ms           LONG    300000
    offsets.retention.check.interval.ms       LONG    600000
    replica.lag.time.max.ms                   LONG    30000
    advertised.listeners                      LIST    null
    group.consumer.assignors                  LIST    uniform,range
    group.coordinator.rebalance.protocols     LIST    classic,consumer,streams
    log.dir                                   LIST    /tmp/kafka-logs
    log.dirs                                  LIST    null
    process.roles                             LIST    ""
    """,
    is_read_only=True,
)
_CHANGEABLE: Final = _table("""
    log.flush.interval.ms                     LONG     null
    background.threads                        INT      10
    log.cleaner.threads                       INT      1
    max.connections                           INT      2147483647
    max.connections.per.ip                    INT      2147483647
    num.io.threads                            INT      8
    num.network.threads                       INT      3
    num.recovery.threads.per.data.dir         INT      2
    num.replica.fetchers                      INT      1
    producer.id.expiration.ms                 INT      86400000
    log.retention.ms                          LONG     null
    log.roll.jitter.ms                        LONG     null
    log.roll.ms                               LONG     null
    transaction.partition.verification.enable BOOLEAN  true
    listeners                                 LIST     PLAINTEXT://:9092
    sasl.enabled.mechanisms                   LIST     GSSAPI
    ssl.client.auth                           STRING   none
    ssl.keystore.location                     STRING   null
    ssl.truststore.location                   STRING   null
    sasl.jaas.config                          PASSWORD null
    ssl.key.password                          PASSWORD null
    ssl.keystore.password                     PASSWORD null
    ssl.truststore.password                   PASSWORD null
""")
BROKER_SETTINGS: Final = {setting.name: setting for setting in _of_topics()} | _FIXED | _CHANGEABLE
GROUP_SETTINGS: Final = _table("""
    consumer.heartbeat.interval.ms   INT     5000 5000..15000 group.consumer.heartbeat.interval.ms
    consumer.session.timeout.ms      INT     45000 45000..60000 group.consumer.session.timeout.ms
    share.auto.offset.reset          STRING  latest *
    share.delivery.count.limit       INT     5 2..10 group.share.delivery.count.limit
    share.heartbeat.interval.ms      INT     5000 5000..15000 group.share.heartbeat.interval.ms
    share.isolation.level            STRING  read_uncommitted read_committed|read_uncommitted
    share.partition.max.record.locks INT     2000 100..4000 group.share.partition.max.record.locks
    share.record.lock.duration.ms    INT     30000 15000..60000 group.share.record.lock.duration.ms
    share.renew.acknowledge.enable   BOOLEAN true *
    share.session.timeout.ms         INT     45000 45000..60000 group.share.session.timeout.ms
""")
CLIENT_METRICS_SETTINGS: Final = _table("""
    interval.ms INT  300000 100..3600000
    match       LIST "" *
    metrics     LIST "" *
""")
