"""Options of format("pykafka"): what is taken, and the sentence for what is not."""

from __future__ import annotations

import pickle

import pytest

from pykafka.spark.errors import OptionError
from pykafka.spark.offsets import EARLIEST, LATEST, TopicPartition
from pykafka.spark.options import OPTIONS, Mode, includes_headers, parse, read_options, write_options

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


def test_spark_adds_options_to_streaming_sinks() -> None:
    raw = {**HOSTS, "checkpointlocation": "/c", "queryname": "q"}
    assert write_options(raw, Mode.STREAM_WRITE).topic is None
    with pytest.raises(OptionError, match="checkpointlocation"):
        write_options(raw, Mode.BATCH_WRITE)


def test_rate_limit_is_ignored_in_batch_as_the_jvm_connector_does() -> None:
    assert read_options({**READ, "maxOffsetsPerTrigger": "5"}, Mode.BATCH_READ).max_offsets_per_trigger is None


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ({"startingoffset": "earliest"}, "option 'startingoffset' is not known.*did you mean 'startingOffsets'"),
        ({"frobnicate": "1"}, "option 'frobnicate' is not known.*those of a batch read are .*subscribePattern"),
        ({"kafka.auto.offset.reset": "latest"}, "'kafka.auto.offset.reset' is refused: .*startingOffsets"),
        ({"kafka.sasl.jaas.config": "x"}, "refused: it configures Java"),
        ({"minpartitions": "3"}, "'minPartitions' of Spark's Kafka connector is not supported"),
        ({"path": "/x"}, "load\\(\\) and save\\(\\) without a path"),
        ({"topic": "x"}, "option 'topic' is not valid in a batch read, only in a batch write and a streaming write"),
        ({"assign": '{"a":[0]}'}, "only one of them can be given, not subscribe and assign"),
        ({"subscribe": " , "}, "option 'subscribe' names no topic"),
        ({"subscribe": "a b"}, "'a b', which cannot be a topic"),
        ({"startingoffsets": "now"}, "'startingOffsets' must be 'earliest', 'latest' or JSON"),
        ({"startingoffsets": "latest"}, "'startingOffsets' cannot be 'latest' in a batch read"),
        ({"startingoffsets": '{"a":{"0":-1}}'}, "'startingOffsets' has -1 \\(latest\\) for a-0"),
        ({"endingoffsets": "earliest"}, "'endingOffsets' cannot be 'earliest' in a batch read"),
        ({"endingoffsets": '{"a":{"0":-2}}'}, "'endingOffsets' has -2 \\(earliest\\) for a-0"),
        ({"failondataloss": "maybe"}, "'failOnDataLoss' must be true or false, not 'maybe'"),
        ({"includeheaders": "yes"}, "'includeHeaders' must be true or false"),
        ({"kafkaconsumer.polltimeoutms": "0"}, "'kafkaConsumer.pollTimeoutMs' must be a positive time"),
        ({"fetchoffset.numretries": "-1"}, "'fetchOffset.numRetries' must be at least 0"),
        ({"kafka.bootstrap.servers": "localhost"}, "'localhost', which is not of the form host:port"),
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
        ({**HOSTS, "subscribe": "a"}, "'subscribe' is not valid in a batch write"),
        ({**HOSTS, "topic": "a/b"}, "cannot be a topic"),
        ({**HOSTS, "topic": ".."}, "cannot be a topic"),
        ({**HOSTS, "kafka.acks": "1"}, "'kafka.acks' must be all or -1, not '1'"),
        ({**HOSTS, "kafka.compression.type": "br"}, "'kafka.compression.type' must be none or gzip"),
        ({**HOSTS, "kafka.partitioner.class": "x"}, "'partition' column"),
    ],
)
def test_bad_write_options(raw: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        write_options(raw, Mode.BATCH_WRITE)


@pytest.mark.parametrize(
    ("raw", "expected"), [({}, False), ({"includeheaders": "TRUE"}, True), ({"includeHeaders": "false"}, False)]
)
def test_includes_headers(raw: dict[str, str], expected: bool) -> None:
    assert includes_headers(raw) is expected


def test_table_names_are_distinct_and_defaults_are_for_all() -> None:
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)
    assert set(parse(HOSTS, Mode.BATCH_WRITE)) == {option.name for option in OPTIONS}
