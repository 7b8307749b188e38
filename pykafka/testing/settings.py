"""The settings of topics, brokers, groups and clients' metrics: defaults of Kafka 4.4, and what checks their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, NamedTuple

_LONG_MAX: Final = 2**63 - 1
_INT_MAX: Final = 2**31 - 1


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

#: Returns what is wrong with a value, in Kafka's words; None: nothing is.
Check = Callable[[str], str | None]


def _anything(value: str) -> str | None:
    return None


def at_least(lowest: float) -> Check:
    """Return a check that refuses smaller numbers."""

    def check(value: str) -> str | None:
        return None if float(value) >= lowest else f"Value must be at least {lowest}"

    return check


def between(lowest: float, highest: float) -> Check:
    """Return a check that refuses smaller and larger numbers."""

    def check(value: str) -> str | None:
        if float(value) < lowest:
            return f"Value must be at least {lowest}"
        return None if float(value) <= highest else f"Value must be no more than {highest}"

    return check


def one_of(*choices: str) -> Check:
    """Return a check that refuses other words, in lists too."""

    def check(value: str) -> str | None:
        known = all(word.strip() in choices for word in value.split(",") if word.strip())
        return None if known else f"String must be one of: {', '.join(choices)}"

    return check


class Setting(NamedTuple):
    """One setting.

    :param name: the name
    :param kind: its type
    :param default: its value if no broker's or administrator's says otherwise; None: it is not set
    :param check: refuses values
    :param synonyms: the brokers' settings that give its default, the first one that is set
    :param is_read_only: whether brokers read it at their start alone
    """

    name: str
    kind: Kind
    default: str | None
    check: Check = _anything
    synonyms: tuple[str, ...] = ()
    is_read_only: bool = False

    @property
    def is_sensitive(self) -> bool:
        """Whether brokers never show its value."""
        return self.kind == Kind.PASSWORD

    def problem(self, value: str) -> str | None:
        """Return what is wrong with a value, in Kafka's words; None: nothing is."""
        problem = self._parsed(value) or self.check(value)
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


def _table(settings: Iterable[Setting]) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


_RETENTION: Final = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_COMPRESSIONS: Final = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMESTAMPS: Final = one_of("CreateTime", "LogAppendTime")
_POLICIES: Final = one_of("compact", "delete")

TOPIC_SETTINGS: Final = _table(
    (
        Setting("cleanup.policy", Kind.LIST, "delete", _POLICIES, ("log.cleanup.policy",)),
        Setting("compression.gzip.level", Kind.INT, "-1", between(-1, 9), ("compression.gzip.level",)),
        Setting("compression.lz4.level", Kind.INT, "9", between(1, 17), ("compression.lz4.level",)),
        Setting("compression.type", Kind.STRING, "producer", _COMPRESSIONS, ("compression.type",)),
        Setting("compression.zstd.level", Kind.INT, "3", between(-131072, 22), ("compression.zstd.level",)),
        Setting("delete.retention.ms", Kind.LONG, "86400000", at_least(0), ("log.cleaner.delete.retention.ms",)),
        Setting("errors.deadletterqueue.group.enable", Kind.BOOLEAN, "false"),
        Setting("file.delete.delay.ms", Kind.LONG, "60000", at_least(0), ("log.segment.delete.delay.ms",)),
        Setting("flush.messages", Kind.LONG, str(_LONG_MAX), at_least(1), ("log.flush.interval.messages",)),
        Setting("flush.ms", Kind.LONG, str(_LONG_MAX), at_least(0), ("log.flush.interval.ms",)),
        Setting("follower.replication.throttled.replicas", Kind.LIST, ""),
        Setting("index.interval.bytes", Kind.INT, "4096", at_least(0), ("log.index.interval.bytes",)),
        Setting("leader.replication.throttled.replicas", Kind.LIST, ""),
        Setting("local.retention.bytes", Kind.LONG, "-2", at_least(-2), ("log.local.retention.bytes",)),
        Setting("local.retention.ms", Kind.LONG, "-2", at_least(-2), ("log.local.retention.ms",)),
        Setting(
            "max.compaction.lag.ms", Kind.LONG, str(_LONG_MAX), at_least(1), ("log.cleaner.max.compaction.lag.ms",)
        ),
        Setting(
            "max.decompressed.message.bytes", Kind.INT, "2147483639", at_least(0), ("max.decompressed.message.bytes",)
        ),
        Setting("max.message.bytes", Kind.INT, "1048588", at_least(0), ("message.max.bytes",)),
        Setting(
            "message.timestamp.after.max.ms", Kind.LONG, "3600000", at_least(0), ("log.message.timestamp.after.max.ms",)
        ),
        Setting(
            "message.timestamp.before.max.ms",
            Kind.LONG,
            str(_LONG_MAX),
            at_least(0),
            ("log.message.timestamp.before.max.ms",),
        ),
        Setting("message.timestamp.type", Kind.STRING, "CreateTime", _TIMESTAMPS, ("log.message.timestamp.type",)),
        Setting("min.cleanable.dirty.ratio", Kind.DOUBLE, "0.5", between(0, 1), ("log.cleaner.min.cleanable.ratio",)),
        Setting("min.compaction.lag.ms", Kind.LONG, "0", at_least(0), ("log.cleaner.min.compaction.lag.ms",)),
        Setting("min.insync.replicas", Kind.INT, "1", at_least(1), ("min.insync.replicas",)),
        Setting("preallocate", Kind.BOOLEAN, "false", _anything, ("log.preallocate",)),
        Setting("remote.copy.lag.bytes", Kind.LONG, "-1", at_least(-1), ("log.remote.copy.lag.bytes",)),
        Setting("remote.copy.lag.ms", Kind.LONG, "0", at_least(-1), ("log.remote.copy.lag.ms",)),
        Setting("remote.log.copy.disable", Kind.BOOLEAN, "false"),
        Setting("remote.log.delete.on.disable", Kind.BOOLEAN, "false"),
        Setting("remote.storage.enable", Kind.BOOLEAN, "false"),
        Setting("retention.bytes", Kind.LONG, "-1", _anything, ("log.retention.bytes",)),
        Setting("retention.ms", Kind.LONG, "604800000", at_least(-1), _RETENTION),
        Setting("segment.bytes", Kind.INT, "1073741824", at_least(1048576), ("log.segment.bytes",)),
        Setting("segment.index.bytes", Kind.INT, "10485760", at_least(4), ("log.index.size.max.bytes",)),
        Setting("segment.jitter.ms", Kind.LONG, "0", at_least(0), ("log.roll.jitter.ms", "log.roll.jitter.hours")),
        Setting("segment.ms", Kind.LONG, "604800000", at_least(1), ("log.roll.ms", "log.roll.hours")),
        Setting(
            "unclean.leader.election.enable", Kind.BOOLEAN, "false", _anything, ("unclean.leader.election.enable",)
        ),
    )
)


def _of_topics() -> Iterable[Setting]:
    # The brokers' settings that give topics their defaults have types, checks and defaults of these.
    for setting in TOPIC_SETTINGS.values():
        if len(setting.synonyms) == 1:
            yield setting._replace(name=setting.synonyms[0], synonyms=())


def _read_only(kind: Kind, **defaults: str | None) -> Iterable[Setting]:
    for name, default in defaults.items():
        yield Setting(name.replace("_", "."), kind, default, is_read_only=True)


def _changeable(kind: Kind, **defaults: str | None) -> Iterable[Setting]:
    for name, default in defaults.items():
        yield Setting(name.replace("_", "."), kind, default)


BROKER_SETTINGS: Final = _table(
    (
        *_of_topics(),
        *_read_only(
            Kind.BOOLEAN,
            auto_create_topics_enable="true",
            auto_leader_rebalance_enable="true",
            controlled_shutdown_enable="true",
            delete_topic_enable="true",
            log_cleaner_enable="true",
            transaction_two_phase_commit_enable="false",
        ),
        *_read_only(
            Kind.STRING,
            authorizer_class_name="",
            broker_rack=None,
            inter_broker_listener_name="PLAINTEXT",
            security_inter_broker_protocol="PLAINTEXT",
        ),
        *_read_only(
            Kind.INT,
            broker_id="-1",
            fetch_max_bytes="57671680",
            group_consumer_heartbeat_interval_ms="5000",
            group_consumer_max_heartbeat_interval_ms="15000",
            group_consumer_max_session_timeout_ms="60000",
            group_consumer_max_size=str(_INT_MAX),
            group_consumer_min_heartbeat_interval_ms="5000",
            group_consumer_min_session_timeout_ms="45000",
            group_consumer_session_timeout_ms="45000",
            group_initial_rebalance_delay_ms="3000",
            group_max_session_timeout_ms="1800000",
            group_max_size=str(_INT_MAX),
            group_min_session_timeout_ms="6000",
            group_share_delivery_count_limit="5",
            group_share_heartbeat_interval_ms="5000",
            group_share_max_size="200",
            group_share_partition_max_record_locks="2000",
            group_share_record_lock_duration_ms="30000",
            group_share_session_timeout_ms="45000",
            log_retention_hours="168",
            log_retention_minutes=None,
            log_roll_hours="168",
            log_roll_jitter_hours="0",
            max_incremental_fetch_session_cache_slots="1000",
            node_id=None,
            num_partitions="1",
            offset_metadata_max_bytes="4096",
            offsets_retention_minutes="10080",
            offsets_topic_num_partitions="50",
            queued_max_requests="500",
            replica_fetch_max_bytes="1048576",
            request_timeout_ms="30000",
            socket_request_max_bytes="104857600",
            transaction_max_timeout_ms="900000",
            transaction_state_log_min_isr="2",
            transaction_state_log_num_partitions="50",
            transactional_id_expiration_ms="604800000",
        ),
        *_read_only(
            Kind.SHORT,
            default_replication_factor="1",
            offsets_topic_replication_factor="3",
            transaction_state_log_replication_factor="3",
        ),
        *_read_only(
            Kind.LONG,
            connections_max_idle_ms="600000",
            connections_max_reauth_ms="0",
            log_retention_check_interval_ms="300000",
            offsets_retention_check_interval_ms="600000",
            replica_lag_time_max_ms="30000",
        ),
        *_read_only(
            Kind.LIST,
            advertised_listeners=None,
            group_consumer_assignors="uniform,range",
            group_coordinator_rebalance_protocols="classic,consumer,streams",
            log_dir="/tmp/kafka-logs",
            log_dirs=None,
            process_roles="",
        ),
        *_changeable(
            Kind.INT,
            background_threads="10",
            log_cleaner_threads="1",
            max_connections=str(_INT_MAX),
            max_connections_per_ip=str(_INT_MAX),
            num_io_threads="8",
            num_network_threads="3",
            num_recovery_threads_per_data_dir="2",
            num_replica_fetchers="1",
            producer_id_expiration_ms="86400000",
        ),
        *_changeable(
            Kind.LONG, log_retention_ms=None, log_roll_jitter_ms=None, log_roll_ms=None, log_flush_interval_ms=None
        ),
        *_changeable(Kind.BOOLEAN, transaction_partition_verification_enable="true"),
        *_changeable(Kind.LIST, listeners="PLAINTEXT://:9092", sasl_enabled_mechanisms="GSSAPI"),
        *_changeable(Kind.STRING, ssl_client_auth="none", ssl_keystore_location=None, ssl_truststore_location=None),
        *_changeable(
            Kind.PASSWORD,
            sasl_jaas_config=None,
            ssl_key_password=None,
            ssl_keystore_password=None,
            ssl_truststore_password=None,
        ),
    )
)

GROUP_SETTINGS: Final = _table(
    (
        Setting(
            "consumer.heartbeat.interval.ms",
            Kind.INT,
            "5000",
            between(5000, 15000),
            ("group.consumer.heartbeat.interval.ms",),
        ),
        Setting(
            "consumer.session.timeout.ms",
            Kind.INT,
            "45000",
            between(45000, 60000),
            ("group.consumer.session.timeout.ms",),
        ),
        Setting("share.auto.offset.reset", Kind.STRING, "latest"),
        Setting("share.delivery.count.limit", Kind.INT, "5", between(2, 10), ("group.share.delivery.count.limit",)),
        Setting(
            "share.heartbeat.interval.ms",
            Kind.INT,
            "5000",
            between(5000, 15000),
            ("group.share.heartbeat.interval.ms",),
        ),
        Setting("share.isolation.level", Kind.STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted")),
        Setting(
            "share.partition.max.record.locks",
            Kind.INT,
            "2000",
            between(100, 4000),
            ("group.share.partition.max.record.locks",),
        ),
        Setting(
            "share.record.lock.duration.ms",
            Kind.INT,
            "30000",
            between(15000, 60000),
            ("group.share.record.lock.duration.ms",),
        ),
        Setting("share.renew.acknowledge.enable", Kind.BOOLEAN, "true"),
        Setting(
            "share.session.timeout.ms", Kind.INT, "45000", between(45000, 60000), ("group.share.session.timeout.ms",)
        ),
    )
)

CLIENT_METRICS_SETTINGS: Final = _table(
    (
        Setting("interval.ms", Kind.INT, "300000", between(100, 3_600_000)),
        Setting("match", Kind.LIST, ""),
        Setting("metrics", Kind.LIST, ""),
    )
)
