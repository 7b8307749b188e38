"""Options of format("pykafka"): what is taken, and the sentence for what is not."""

from __future__ import annotations

import pickle

import pytest

from pykafka.common import TopicPartition
from pykafka.network.proxies import Proxy
from pykafka.spark.data_loss import warn
from pykafka.spark.errors import OptionError
from pykafka.spark.offsets import EARLIEST, LATEST, ByTime
from pykafka.spark.options import check_read, includes_headers, read_options, write_options
from pykafka.spark.optiontable import OPTIONS, Mode, parse

HOSTS = {"kafka.bootstrap.servers": "localhost:9092"}
READ = {**HOSTS, "subscribe": "flights"}


def test_batch_read_defaults() -> None:
    options = read_options(READ, Mode.BATCH_READ)
    assert options.client.hosts == "localhost:9092"
    assert options.subscription.topics == ("flights",)
    assert (options.starting, options.ending) == (EARLIEST, LATEST)
    assert (options.fail_on_data_loss, options.include_headers, options.max_offsets_per_trigger) == (True, False, None)
    assert options.poll_timeout_ms == 120_000


def test_streams_start_at_latest() -> None:
    assert read_options(READ, Mode.STREAM_READ).starting == LATEST


def test_keys_in_any_case_and_values_untouched() -> None:
    raw = {
        "KAFKA.bootstrap.servers": " a:1, b:2 ",
        "subscribepattern": "Fl.*",
        "startingoffsets": '{"Flights":{"0":23}}',
        "FAILONDATALOSS": "False",
        "kafkaconsumer.polltimeoutms": "2min",
        "maxoffsetspertrigger": "10",
    }
    options = read_options(raw, Mode.STREAM_READ)
    assert options.client.hosts == "a:1,b:2"
    assert options.subscription.pattern is not None
    assert options.subscription.pattern.pattern == "Fl.*"
    assert options.starting == {TopicPartition("Flights", 0): 23}
    assert options.fail_on_data_loss is False
    assert options.poll_timeout_ms == 120_000
    assert options.max_offsets_per_trigger == 10


def test_assign_and_lists_of_topics() -> None:
    assigned = read_options({**HOSTS, "assign": '{"a":[1]}'}, Mode.BATCH_READ).subscription
    assert assigned.partitions == {TopicPartition("a", 1)}
    assert read_options({**HOSTS, "subscribe": "a, b,a"}, Mode.BATCH_READ).subscription.topics == ("a", "b")


@pytest.mark.parametrize("raw", [READ, {**HOSTS, "subscribePattern": "a|b"}, {**HOSTS, "assign": '{"a":[1]}'}])
def test_read_options_travel_to_executors(raw: dict[str, str]) -> None:
    options = read_options(raw, Mode.BATCH_READ)
    assert pickle.loads(pickle.dumps(options)) == options


def test_write_options() -> None:
    options = write_options(
        {**HOSTS, "topic": "t", "kafka.compression.type": "ZSTD", "kafka.acks": "-1"}, Mode.BATCH_WRITE
    )
    assert (options.topic, options.compression) == ("t", "zstd")
    assert write_options(HOSTS, Mode.STREAM_WRITE).topic is None


def test_the_level_of_the_codec_in_use_counts() -> None:
    levels = {
        "kafka.compression.gzip.level": "9",
        "kafka.compression.lz4.level": "17",
        "kafka.compression.zstd.level": "-5",
    }
    for codec, level in {"none": None, "snappy": None, "gzip": 9, "lz4": 17, "zstd": -5}.items():
        raw = {**HOSTS, **levels, "kafka.compression.type": codec}
        assert write_options(raw, Mode.BATCH_WRITE).compression_level == level
    raw = {**HOSTS, "kafka.compression.type": "gzip", "kafka.compression.gzip.level": "-1"}
    assert write_options(raw, Mode.STREAM_WRITE).compression_level is None


def test_spark_adds_options_to_streaming_sinks() -> None:
    raw = {**HOSTS, "checkpointlocation": "/c", "queryname": "q"}
    assert write_options(raw, Mode.STREAM_WRITE).topic is None


def test_a_time_wins_over_offsets_as_in_the_jvm_connector() -> None:
    raw = {**READ, "startingOffsets": '{"a":{"0":5}}', "startingOffsetsByTimestamp": '{"a":{"0":7}}'}
    assert read_options(raw, Mode.BATCH_READ).starting == ByTime({TopicPartition("a", 0): 7})
    raw |= {"startingTimestamp": "8", "startingOffsetsByTimestampStrategy": "Latest", "endingTimestamp": "9"}
    options = read_options(raw, Mode.BATCH_READ)
    assert options.starting == ByTime(8, latest_where_none=True)
    assert options.ending == ByTime(9, latest_where_none=True)


def test_times_before_now() -> None:
    options = read_options({**READ, "startingOffsets": "-15min", "endingOffsets": "- 20 S"}, Mode.BATCH_READ)
    assert options.starting == ByTime(900_000, ago=True, latest_where_none=True)
    assert options.ending == ByTime(20_000, ago=True, latest_where_none=True)
    assert read_options({**READ, "startingOffsets": "-2d"}, Mode.STREAM_READ).starting == ByTime(
        172_800_000, True, True
    )


def test_what_the_java_client_takes_and_this_one_needs_not() -> None:
    raw = {**READ, "kafka.max.poll.records": "20000", "kafka.receive.buffer.bytes": "4194304", "kafka.group.id": "g"}
    raw |= {"kafka.fetch.max.bytes": "1000000", "kafka.max.partition.fetch.bytes": "8388608", "kafka.client.id": "me"}
    options = read_options(raw, Mode.BATCH_READ)
    assert options.fetch_bytes == 1_000_000
    assert options.unpacked_max_bytes == 256 * 1024 * 1024
    assert options.client.client_id == "me"


def test_triggers() -> None:
    raw = {**READ, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "5", "maxTriggerDelay": "2h"}
    options = read_options(raw, Mode.STREAM_READ)
    assert (options.min_offsets_per_trigger, options.max_trigger_delay_ms) == (5, 7_200_000)
    assert read_options(READ, Mode.STREAM_READ).max_trigger_delay_ms == 900_000
    assert read_options(raw, Mode.BATCH_READ).min_offsets_per_trigger is None


@pytest.mark.parametrize(
    ("pattern", "matched", "other"),
    [
        ("\\Qa.b\\E-.*", "a.b-c", "axb-c"),
        ("(?<kind>in|out)\\.\\w+", "in.x", "on.x"),
        ("[\\w.]+(?<!x)", "a.b", "a.x"),
        ("[]a]+\\z", "a", "b"),
        ("(?i)FL[^0-9]+", "flights", "fl1"),
    ],
)
def test_patterns_as_java_writes_them(pattern: str, matched: str, other: str) -> None:
    found = read_options({**HOSTS, "subscribePattern": pattern}, Mode.BATCH_READ).subscription.pattern
    assert found is not None
    assert found.fullmatch(matched)
    assert not found.fullmatch(other)


def test_rate_limit_is_ignored_in_batch_as_the_jvm_connector_does() -> None:
    assert read_options({**READ, "maxOffsetsPerTrigger": "5"}, Mode.BATCH_READ).max_offsets_per_trigger is None


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ({"startingoffset": "earliest"}, "option 'startingoffset' is not known.*did you mean 'startingOffsets'"),
        ({"frobnicate": "1"}, "option 'frobnicate' is not known.*those of a batch read are .*subscribePattern"),
        ({"kafka.frobnicate": "1"}, "option 'kafka.frobnicate' is not known.*nor is it one of Kafka's Java client"),
        ({"group.id": "g"}, "option 'group.id' is not known.*did you mean 'kafka.group.id'"),
        ({"kafka.security.protocol": "tls"}, "must be plaintext or ssl or sasl_plaintext or sasl_ssl, not 'tls'"),
        ({"kafka.auto.offset.reset": "latest"}, "'kafka.auto.offset.reset' is refused: .*startingOffsets"),
        ({"kafka.key.deserializer": "StringDeserializer"}, "refused: keys are read as binary"),
        ({"kafka.enable.auto.commit": "true"}, "refused: offsets are kept in Spark's checkpoint"),
        ({"kafka.isolation.levle": "x"}, "did you mean 'kafka.isolation.level'"),
        ({"kafka.isolation.level": "committed"}, "must be read_uncommitted or read_committed"),
        ({"kafka.group.id": " "}, "option 'kafka.group.id' is empty"),
        ({"minpartitions": "0"}, "'minPartitions' must be at least 1"),
        ({"maxrecordsperpartition": "-3"}, "'maxRecordsPerPartition' must be at least 1"),
        ({"startingtimestamp": "-1"}, "'startingTimestamp' must be at least 0"),
        ({"startingtimestamp": "yesterday"}, "'startingTimestamp' must be a whole number"),
        ({"startingoffsetsbytimestamp": "5"}, "'startingOffsetsByTimestamp' is '5': it is not a JSON object"),
        ({"endingoffsetsbytimestamp": '{"a":{"0":-1}}'}, "-1 of a-0 is not a time in ms since 1970"),
        ({"startingoffsetsbytimestampstrategy": "earliest"}, "must be error or latest"),
        ({"startingoffsets": "-15"}, "a time before now like '-15min'"),
        ({"startingoffsets": "-15weeks"}, "a time before now like '-15min'"),
        ({"startingtimestamp": "5", "endingtimestamp": "4"}, "the read is to start at 5 ms and to end at 4"),
        ({"startingoffsets": "-1h", "endingoffsets": "-2h"}, "start at 3600000 ms before now and to end at 7200000"),
        (
            {"startingoffsets": '{"a":{"0":7}}', "endingoffsets": '{"a":{"0":3}}'},
            "a-0 is to start at 7 .offset. and to end at 3",
        ),
        (
            {"startingoffsetsbytimestamp": '{"a":{"0":7}}', "endingtimestamp": "6"},
            "a-0 is to start at 7 ms and to end at 6",
        ),
        ({"pushdownfilters": "1"}, "'pushDownFilters' must be true or false"),
        ({"path": "/x"}, "load\\(\\) and save\\(\\) without a path"),
        ({"assign": '{"a":[0]}'}, "only one of them can be given, not subscribe and assign"),
        ({"subscribe": " , "}, "option 'subscribe' names no topic"),
        ({"subscribe": "a b"}, "'a b', which cannot be a topic"),
        ({"startingoffsets": "now"}, "'startingOffsets' must be 'earliest', 'latest', JSON like"),
        ({"startingoffsets": "latest"}, "'startingOffsets' cannot be 'latest' in a batch read"),
        ({"startingoffsets": '{"a":{"0":-1}}'}, "'startingOffsets' has -1 \\(latest\\) for a-0"),
        ({"endingoffsets": "earliest"}, "'endingOffsets' cannot be 'earliest' in a batch read"),
        ({"endingoffsets": '{"a":{"0":-2}}'}, "'endingOffsets' has -2 \\(earliest\\) for a-0"),
        ({"failondataloss": "maybe"}, "'failOnDataLoss' must be true or false, not 'maybe'"),
        ({"includeheaders": "yes"}, "'includeHeaders' must be true or false"),
        ({"kafkaconsumer.polltimeoutms": "0"}, "'kafkaConsumer.pollTimeoutMs' must be a positive time"),
        ({"fetchoffset.numretries": "-1"}, "'fetchOffset.numRetries' must be at least 0"),
        ({"kafka.bootstrap.servers": "localhost"}, "'localhost', which is not of the form host:port"),
        ({"kafka.bootstrap.servers": "a:1,b:99999"}, "'kafka.bootstrap.servers': 'b:99999' is no address"),
        ({"kafka.bootstrap.servers": " "}, "option 'kafka.bootstrap.servers' is empty"),
    ],
)
def test_bad_batch_read_options(extra: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        read_options({**READ, **extra}, Mode.BATCH_READ)


@pytest.mark.parametrize(
    ("raw", "mode", "sentence"),
    [
        ({"subscribe": "a"}, Mode.BATCH_READ, "'kafka.bootstrap.servers' is missing"),
        (HOSTS, Mode.BATCH_READ, "one of them must be given"),
        ({**HOSTS, "subscribePattern": "("}, Mode.BATCH_READ, "not a regular expression"),
        ({**HOSTS, "subscribePattern": "a{99999999999}"}, Mode.BATCH_READ, "not a regular expression"),
        ({**HOSTS, "subscribePattern": "(" * 3000 + ")" * 3000}, Mode.BATCH_READ, "not a regular expression"),
        ({**HOSTS, "subscribePattern": "[a-z&&[^b]]"}, Mode.BATCH_READ, "intersections .&&. are Java's alone"),
        ({**READ, "endingTimestamp": "5"}, Mode.STREAM_READ, "'endingTimestamp' is not valid in a streaming read"),
        (
            {**READ, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            Mode.STREAM_READ,
            "'minOffsetsPerTrigger' is 9, which is more than 'maxOffsetsPerTrigger' allows .8",
        ),
        ({**READ, "maxTriggerDelay": "0"}, Mode.STREAM_READ, "'maxTriggerDelay' must be a positive time"),
        (
            {**READ, "endingOffsets": "latest"},
            Mode.STREAM_READ,
            "'endingOffsets' is not valid in a streaming read, only in a batch read",
        ),
        ({**READ, "maxOffsetsPerTrigger": "0"}, Mode.STREAM_READ, "'maxOffsetsPerTrigger' must be at least 1"),
        ({**READ, "maxOffsetsPerTrigger": "many"}, Mode.STREAM_READ, "must be a whole number, not 'many'"),
    ],
)
def test_bad_options_by_mode(raw: dict[str, str], mode: Mode, sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        read_options(raw, mode)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({}, "'kafka.bootstrap.servers' is missing"),
        ({**HOSTS, "topic": "a/b"}, "cannot be a topic"),
        ({**HOSTS, "topic": ".."}, "cannot be a topic"),
        ({**HOSTS, "kafka.acks": "2"}, "'kafka.acks' must be all or -1, not '2'"),
        (
            {**HOSTS, "kafka.transactional.id": "x"},
            "refused: each task needs an id of its own; 'transactionalIdPrefix'",
        ),
        ({**HOSTS, "kafka.compression.type": "br"}, "'kafka.compression.type' must be none or gzip"),
        ({**HOSTS, "kafka.compression.gzip.level": "0"}, "gzip.level' must be at least 1 and at most 9, not 0"),
        ({**HOSTS, "kafka.compression.lz4.level": "high"}, "lz4.level' must be a whole number, not 'high'"),
        ({**HOSTS, "kafka.compression.zstd.level": "23"}, "must be at least -131072 and at most 22, not 23"),
        ({**HOSTS, "kafka.partitioner.class": "x"}, "'partition' column"),
    ],
)
def test_bad_write_options(raw: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        write_options(raw, Mode.BATCH_WRITE)


@pytest.mark.parametrize(
    ("extra", "mode", "sentence"),
    [
        ({"topic": "x"}, Mode.BATCH_READ, "option 'topic' has no effect in a batch read, only in a batch write and a"),
        (
            {"commitprogressto": "g"},
            Mode.BATCH_READ,
            "option 'commitProgressTo' has no effect in a batch read, only in",
        ),
        ({"pushDownFilters": "true"}, Mode.STREAM_READ, "'pushDownFilters' has no effect in a streaming read"),
        (
            {"kafka.transactional.id": "x"},
            Mode.STREAM_READ,
            "'kafka.transactional.id' has no effect in a read, only in",
        ),
        ({"checkpointLocation": "/c"}, Mode.STREAM_READ, "'checkpointLocation' has no effect here: give it to writeSt"),
        ({"kafka.enable.auto.commit": "false"}, Mode.BATCH_READ, "'kafka.enable.auto.commit' has no effect: it is so"),
        (
            {"kafka.value.deserializer": "org.x.ByteArrayDeserializer"},
            Mode.BATCH_READ,
            "no effect: it is so in any case",
        ),
        (
            {"startingOffsets": "nonsense"},
            Mode.BATCH_WRITE,
            "'startingOffsets' has no effect in a batch write, only in",
        ),
        (
            {"kafka.auto.offset.reset": "x"},
            Mode.STREAM_WRITE,
            "'kafka.auto.offset.reset' has no effect in a write, only",
        ),
        ({"kafka.value.serializer": "org.x.StringSerializer"}, Mode.BATCH_WRITE, "no effect: it is so in any case"),
        ({"queryName": "q"}, Mode.BATCH_WRITE, "'queryName' has no effect here"),
        ({"kafka.acks": "1"}, Mode.BATCH_WRITE, "option 'kafka.acks' is taken as all"),
        ({"kafka.acks": "0"}, Mode.STREAM_WRITE, "option 'kafka.acks' is taken as all"),
    ],
)
def test_what_does_no_harm_is_a_warning(
    extra: dict[str, str], mode: Mode, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    # A map of options may be shared by reads and writes; these were refused.
    with caplog.at_level("WARNING", logger="pykafka.spark"):
        if mode & Mode.READ:
            read_options({**READ, **extra}, mode, warn)
        else:
            write_options({**HOSTS, **extra}, mode, warn)
    assert len(caplog.messages) == 1
    assert sentence in caplog.messages[0]


def test_one_sentence_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    """A map of options that was made for Spark's own connector is taken, and not with a line for each."""
    raw = {**READ, "kafka.linger.ms": "5", "kafka.retries": "3", "kafka.group.id": "g", "groupIdPrefix": "p"}
    with caplog.at_level("WARNING", logger="pykafka.spark"):
        read_options(raw, Mode.BATCH_READ, warn)
    assert caplog.messages == [
        "options 'kafka.linger.ms', 'kafka.retries': each has no effect: it is about the inside of Kafka's Java client, "
        "which is not used here",
        "options 'kafka.group.id', 'groupIdPrefix': each has no effect: reads join no group",
    ]


def test_what_is_checked_before_it_is_known_what_a_read_is_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    check_read({**READ, "topic": "x", "kafka.transactional.id": "x", "endingOffsets": "latest"})
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("raw", "expected"), [({}, False), ({"includeheaders": "TRUE"}, True), ({"includeHeaders": "false"}, False)]
)
def test_includes_headers(raw: dict[str, str], expected: bool) -> None:
    assert includes_headers(raw) is expected


def test_table_names_are_distinct_and_defaults_are_for_all() -> None:
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)
    assert set(parse(HOSTS, Mode.BATCH_WRITE)) == {option.name for option in OPTIONS}


def test_kafkas_options_can_be_shared_by_reads_and_writes() -> None:
    for option in OPTIONS:
        if option.name.startswith("kafka."):
            assert not option.refused, option.name


def test_settings_of_connections_reach_the_client() -> None:
    raw = {
        "kafka.bootstrap.servers": "h:1",
        "subscribe": "t",
        "kafka.connections.max.idle.ms": "-1",
        "kafka.reconnect.backoff.ms": "7",
        "kafka.client.dns.lookup": "resolve_canonical_bootstrap_servers_only",
        "kafka.allow.cleartext.credentials": "true",
        "kafka.metadata.max.age.ms": "5000",
        "kafka.metadata.recovery.strategy": "none",
        "proxy": "socks5h://joe:s%40fe@gate:1080",
    }
    client = read_options(raw, Mode.BATCH_READ).client
    assert client.connections.connections_max_idle_ms == 0
    assert client.connections.reconnect_backoff_ms == 7
    assert client.connections.allow_cleartext_credentials is True
    assert client.connections.client_dns_lookup == "resolve_canonical_bootstrap_servers_only"
    assert client.connections.proxy == Proxy("socks5h", "gate", 1080, "joe", "s@fe")
    assert (client.metadata.metadata_max_age_ms, client.metadata.metadata_recovery_strategy) == (5000, "none")
    assert hash(client) == hash(pickle.loads(pickle.dumps(client)))
    assert "s@fe" not in repr(client)


def test_a_proxy_that_is_none_is_refused_without_its_password() -> None:
    raw = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "proxy": "ftp://joe:s3cret@gate"}
    with pytest.raises(OptionError, match="option 'proxy'") as raised:
        read_options(raw, Mode.BATCH_READ)
    assert "s3cret" not in str(raised.value)
