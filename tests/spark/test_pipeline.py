"""Pipelines on a real broker: landing, mirroring, continuing, stopping, and what a dry run finds."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from pykafka.spark.inspection import this_python
from pykafka.spark.pipeline import Declaration, DeclarationError, Pipeline, StopRequest, landing, running
from pykafka.spark.pipeline.deadletters import is_supported
from pykafka.spark.pipeline.events import Progress
from pykafka.spark.pythons import limits_micro_batches
from tests.support.spark.topics import Record, Topics

PARSE = '[parse]\nformat = "json"\nschema = "user STRING, at TIMESTAMP, ms INT"\n'
#: Each a way to be none of the schema.
MALFORMED = [
    b"nonsense",
    b'{"ms":"x"}',
    b'{"ms":1} more',
    b'{"ms":1}{"ms":2}',
    b"",
    b" ",
    b"[]",
    b"null",
    b'{"user":"\xff"}',
]

#: Spark's error if the process that plans a query takes more than ten seconds to start, which no setting extends.
STARTED_LATE = "Python worker failed to connect back"


def clicks(numbers: Iterable[int]) -> list[Record]:
    """Return clicks over three partitions and two days."""
    values = [(n, {"user": f"u{n % 7}", "at": f"2026-01-0{1 + n % 2}T12:00:00Z", "ms": n}) for n in numbers]
    return [Record(json.dumps(value).encode(), b"k%d" % n, n % 3, [("n", b"%d" % n)]) for n, value in values]


class Directory:
    """A declaration and what it leads to, in a directory of its own.

    :param path: the directory
    :param hosts: of the brokers
    :param spark: the session of the tests
    """

    def __init__(self, path: Path, hosts: str, spark: SparkSession) -> None:
        self.path, self.hosts, self.spark = path, hosts, spark
        self.file = path / "clicks.toml"
        self.seen: list[Progress] = []

    def declare(self, topic: str, *parts: str, sink: str | None = None, top: str = "", source: str = "") -> None:
        """Write a declaration that lands a topic."""
        sink = f'[sink]\nformat = "parquet"\npath = "{self.path}/landed"\n' if sink is None else sink
        text = f'checkpoint = "{self.path}/checkpoint"\n{top}\n[source]\nbrokers = "{self.hosts}"\n{source}\n'
        self.file.write_text("\n".join([text, f'topic = "{topic}"\n', *parts, sink]))

    def keep(self) -> str:
        """Return the part by which malformed records are kept in files."""
        return f'[malformed]\nformat = "parquet"\npath = "{self.path}/malformed"\n'

    def run(self, stop: StopRequest | None = None, show: Callable[[Progress], None] | None = None) -> Progress:
        """Run it in the session of the tests; return the progress of its only sink."""
        (done,) = self.run_all(stop, show)
        return done

    def run_all(
        self, stop: StopRequest | None = None, show: Callable[[Progress], None] | None = None
    ) -> tuple[Progress, ...]:
        """Run it in the session of the tests; return the progress of each sink."""
        pipeline = Pipeline(
            Declaration.load(self.file), self.spark, show or self.seen.append, stop or StopRequest(grace_s=30)
        )
        try:
            return pipeline.run()
        except StreamingQueryException as error:
            if STARTED_LATE not in str(error):
                raise
            return pipeline.run()  # nothing was read yet

    def command(self, *options: str) -> Result:
        """Run the command, in this process."""
        return CliRunner().invoke(tools, ["pipeline", str(self.file), *options])

    def rows(self, name: str = "landed") -> list[Row]:
        """Read what has landed."""
        return self.spark.read.parquet(str(self.path / name)).collect()


@pytest.fixture
def made(tmp_path: Path, topics: Topics, spark: SparkSession) -> Directory:
    """Return a place for a pipeline."""
    return Directory(tmp_path, topics.hosts, spark)


def test_land_and_go_on(made: Directory, topics: Topics) -> None:
    """Rows by day, each once; what is malformed apart and as it was; a second run adds what is new."""
    topic = topics.create(3)
    bad = [Record(value, b"bad", 1, [("h", b"1")]) for value in MALFORMED]
    topics.produce(topic, [*clicks(range(300)), *bad, Record(None, b"tombstone", 2)])
    made.declare(
        topic,
        "[source.options]\nmaxOffsetsPerTrigger = 200",
        PARSE,
        made.keep(),
        '[[transform]]\nview = "alive"\nsql = "SELECT * FROM records WHERE kafka.value IS NOT NULL"',
        '[[transform]]\nsql = "SELECT user, ms, kafka.offset, date(at) AS day FROM alive"',
    )
    made.file.write_text(made.file.read_text() + 'partition_by = ["day"]\n')
    done = made.run()
    assert (done.records, done.malformed) == (310, len(MALFORMED))
    assert done.batches > 1
    assert done.lag == (0 if limits_micro_batches() else None)
    assert [progress.records for progress in made.seen] == sorted(progress.records for progress in made.seen)
    assert sorted(row.ms for row in made.rows()) == list(range(300))
    assert sorted(path.name for path in (made.path / "landed").glob("day=*")) == ["day=2026-01-01", "day=2026-01-02"]
    kept = made.rows("malformed")
    assert sorted(bytes(row.value) for row in kept) == sorted(MALFORMED)
    assert {(bytes(row.key), row.topic, row.partition, row.headers[0].key) for row in kept} == {(b"bad", topic, 1, "h")}

    topics.produce(topic, [*clicks(range(300, 400)), bad[0]])
    done = made.run()
    assert (done.records, done.malformed) == (101, 1)
    assert sorted(row.ms for row in made.rows()) == list(range(400))
    assert len(made.rows("malformed")) == len(MALFORMED) + 1


def test_nothing_new(made: Directory, topics: Topics) -> None:
    topic = topics.create()
    made.declare(topic)
    assert made.run() == Progress("clicks", lag=made.run().lag)


def test_malformed_records_end_it_where_they_are_not_kept(made: Directory, topics: Topics) -> None:
    """With the sentence that names the record, by the command too; kept apart, the next run continues."""
    topic = topics.create(3)
    topics.produce(topic, [*clicks(range(10)), Record(b"nonsense", None, 1)])
    made.declare(topic, PARSE)
    with pytest.raises(StreamingQueryException):
        made.run()
    # What tasks of other partitions had written may be left, as it is when a run is killed: no reason not to continue.
    (made.path / "landed" / "part-00000-left.c000.snappy.parquet").write_bytes(b"unfinished")
    result = made.command()
    assert result.exit_code == Status.FAILED
    assert result.stderr == (
        f"kafka-tools: the value of the record at topic {topic}, partition 1, offset 3 is no JSON of the schema: nonsense. "
        "Declare [malformed] to keep such records apart and continue\n"
    )
    made.declare(topic, PARSE, made.keep())
    result = made.command()
    assert result.exit_code == Status.OK, result.output
    assert "11 records read in 1 micro-batches" in result.stdout
    assert f"1 of them malformed, to Parquet in {made.path}/malformed" in result.stdout
    assert len(made.rows()) == 10
    assert len(made.rows("malformed")) == 1


def test_malformed_records_to_a_topic(made: Directory, topics: Topics) -> None:
    """As they were, with headers that say where they stood; CSV this time."""
    topic, dead = topics.create(), topics.create()
    topics.produce(
        topic, [Record(b"1,x"), Record(b"1,x,y", b"k", headers=[("h", None)]), Record(b"2,y"), Record(b"z,x")]
    )
    parse = '[parse]\nformat = "csv"\nschema = "a INT, b STRING"\n'
    made.declare(topic, parse, f'[malformed]\nformat = "topic"\ntopic = "{dead}"\n')
    assert made.run().malformed == 2
    assert sorted((row.a, row.b) for row in made.rows()) == [(1, "x"), (2, "y")]
    first, second = sorted(topics.read(dead, 2), key=lambda record: record.value or b"")
    assert (first.value, first.key) == (b"1,x,y", b"k")
    origin = [("source.topic", topic.encode()), ("source.partition", b"0")]
    assert first.headers == [("h", None), *origin, ("source.offset", b"1")]
    assert (second.value, second.headers) == (b"z,x", [*origin, ("source.offset", b"3")])


def test_no_gap_at_latest(made: Directory, topics: Topics) -> None:
    """A first run at `latest` lands what comes after it, good and bad."""
    topic = topics.create(3)
    topics.produce(topic, [*clicks(range(5)), Record(b"old", None, 0)])
    made.declare(topic, PARSE, made.keep(), source='start = "latest"')
    assert made.run().records == 0
    topics.produce(topic, [*clicks(range(5, 9)), Record(b"new", None, 0)])
    assert made.run().records == 5
    assert sorted(row.ms for row in made.rows()) == [5, 6, 7, 8]
    assert [bytes(row.value) for row in made.rows("malformed")] == [b"new"]


def test_mirror(made: Directory, topics: Topics) -> None:
    """Keys, values, headers and partitions are the same in the other topic; a second run writes what is new."""
    topic, copy = topics.create(3), topics.create(3)
    topics.produce(topic, [*clicks(range(200)), Record(None, b"tombstone", 2)])
    sink = f'[sink]\nformat = "topic"\ntopic = "{copy}"\noptions = {{ "kafka.compression.type" = "zstd" }}\n'
    made.declare(topic, sink=sink)
    assert made.run().records == 201
    topics.produce(topic, clicks(range(200, 220)))
    assert made.run().records == 20

    def content(name: str) -> list[Any]:
        return sorted((r.partition, r.key or b"", r.value or b"", r.headers or []) for r in topics.read(name, 221))

    assert content(copy) == content(topic)


def test_records_used_twice(made: Directory, topics: Topics) -> None:
    """They are counted once."""
    topic = topics.create(3)
    topics.produce(topic, clicks(range(10)))
    sql = "SELECT ms FROM records UNION ALL SELECT -ms FROM records WHERE ms > 5"
    made.declare(topic, PARSE, f'[[transform]]\nsql = "{sql}"')
    assert made.run().records == 10
    assert sorted(row.ms for row in made.rows()) == sorted([*range(10), -6, -7, -8, -9])


def test_aggregate_with_a_watermark(made: Directory, topics: Topics) -> None:
    """A window is written when the watermark has passed it; its state is in the checkpoint."""
    topic = topics.create(3)
    topics.produce(topic, clicks(range(10)))
    steps = (
        '[[transform]]\nview = "timed"\nsql = "SELECT * FROM records"\n'
        'watermark = { column = "at", delay = "1 minute" }\n'
        "[[transform]]\nsql = \"SELECT window.start AS at, count(*) AS n FROM timed GROUP BY window(at, '1 day')\"\n"
    )
    made.declare(topic, PARSE, steps)
    made.run()
    topics.produce(topic, [Record(b'{"at":"2026-01-04T00:00:00Z"}')])
    made.run()
    # Before PySpark 4.2 there is no micro-batch behind the last record, which would write what the watermark has passed.
    assert sorted((row.at.day, row.n) for row in made.rows()) == (
        [(1, 5), (2, 5)] if limits_micro_batches() else [(1, 5)]
    )


def test_stop_at_the_end_of_a_micro_batch(made: Directory, topics: Topics) -> None:
    """An interval continues until it is told to stop; nothing is lost or doubled by the next run."""
    topic = topics.create(3)
    topics.produce(topic, clicks(range(300)))
    options = "[source.options]\nmaxOffsetsPerTrigger = 30"
    made.declare(topic, options, PARSE, made.keep(), top='trigger = "1 second"')
    stop = StopRequest(grace_s=60)
    done = made.run(stop, lambda progress: stop.ask() if progress.batches >= 2 else None)
    assert 2 <= done.batches < 10
    assert len(made.rows()) == done.records
    made.declare(topic, PARSE, made.keep())
    assert made.run().records == 300 - done.records
    assert sorted(row.ms for row in made.rows()) == list(range(300))


def test_stop_at_once(made: Directory, topics: Topics) -> None:
    """Asked twice, it does not wait for a micro-batch that would take for ever."""
    topic = topics.create()
    topics.produce(topic, clicks([0]))
    sql = "SELECT reflect('java.lang.Thread', 'sleep', 600000L), value FROM records"
    made.declare(topic, f'[[transform]]\nsql = "{sql}"')
    stop = StopRequest(grace_s=600)
    jobs = made.spark.sparkContext.statusTracker()
    given_up = threading.Event()

    def ask_twice_when_it_sleeps() -> None:
        while not jobs.getActiveStageIds() and not given_up.wait(0.1):
            pass
        given_up.wait(1)  # of the stage's task it is not told when it begins
        stop.ask()
        stop.ask()

    asking = threading.Thread(target=ask_twice_when_it_sleeps)
    asking.start()
    try:
        assert made.run(stop).batches == 0
    finally:
        given_up.set()
        asking.join()


# -- what is wrong, before anything runs


def test_dry_run(made: Directory, topics: Topics) -> None:
    """All is checked, and nothing is read, written or left."""
    topic, copy, dead = topics.create(3), topics.create(3), topics.create()
    topics.produce(topic, clicks(range(20)))
    made.declare(topic, PARSE, f'[malformed]\nformat = "topic"\ntopic = "{dead}"\n')
    before = sorted(made.path.iterdir())
    result = made.command("--dry-run")
    assert result.exit_code == Status.OK, result.output
    assert "WRONG" not in result.stdout
    for line in (
        f"[source]: {topic} on {topics.hosts}: 3 partitions, 20 records from the start on",
        f"[malformed]: topic {dead} on {topics.hosts}: 1 partitions",
        f"checkpoint: {made.path}/checkpoint is new",
        f"[sink] path: Parquet in {made.path}/landed",
        "[transform]: rows have the columns user string, at timestamp, ms int, kafka struct<",
        "an executor reads the source",
        f"worker on {this_python()}",
        "clicks: nothing is wrong; trigger: available_now",
    ):
        assert line in result.stdout
    assert sorted(made.path.iterdir()) == before
    assert topics.read(dead, 0) == []

    made.declare(topic, sink=f'[sink]\nformat = "topic"\ntopic = "{copy}"\n')
    made.run()
    result = made.command("--dry-run")
    assert f"continues from {made.path}/checkpoint, after micro-batch 0" in result.stdout
    assert result.exit_code == Status.OK


SQL = "transform=[{{sql='{}'}}]"
FILES = "sink={format='parquet', path='<path>/landed'}"


@pytest.mark.parametrize(
    ("overrides", "status", "expected"),
    [
        ([FILES, "source.topic=not-there"], Status.NOT_FOUND, "[source]: not-there does not exist on"),
        ([FILES, "source.start={'<topic>'={'0'=5}}"], Status.FAILED, "[source]: "),
        (
            ["sink={format='topic', topic='not-there'}", SQL.format("SELECT user AS value FROM records")],
            Status.NOT_FOUND,
            "[sink]: not-there does not exist on",
        ),
        ([FILES, "parse.schema=user STRNG"], Status.USAGE, "[parse] schema: "),
        ([FILES, "parse.schema=kafka INT"], Status.USAGE, "[parse] schema: has a field 'kafka'"),
        ([FILES, "parse.schema=a INT NOT NULL"], Status.USAGE, "[parse] schema: 'a' cannot be NOT NULL"),
        ([FILES, SQL.format("SELECT usr FROM records")], Status.USAGE, "[transform 1] sql: [UNRESOLVED_COLUMN"),
        ([FILES, SQL.format("SELECT * FORM records")], Status.USAGE, "[transform 1] sql: [PARSE_SYNTAX_ERROR]"),
        ([FILES, SQL.format("SELECT * FROM recrods")], Status.USAGE, "[transform 1] sql: [TABLE_OR_VIEW_NOT_FOUND]"),
        ([FILES, SQL.format("SELECT 1 AS one")], Status.USAGE, "[transform 1] sql: does not read 'records'"),
        ([FILES, SQL.format("SELECT user, ms AS user FROM records")], Status.USAGE, "[sink]: the rows have columns of"),
        ([FILES, SQL.format("SELECT user, count(*) AS n FROM records GROUP BY user")], Status.FAILED, "watermark"),
        ([FILES, SQL.format("SELECT * FROM records ORDER BY ms")], Status.FAILED, "[transform]: "),
        ([FILES, "sink.partition_by=dya"], Status.USAGE, "[sink] partition_by: 'dya' is no column of the rows"),
        (["sink={format='topic', topic='<copy>'}"], Status.USAGE, "[sink]: the DataFrame has no column 'value'"),
        (["sink={format='parquet', path='<path>/file/x'}"], Status.FAILED, "[sink] path: "),
        ([FILES, "checkpoint=<path>/file/x"], Status.FAILED, "checkpoint: "),
        (["sink={format='parquet', path='<path>/used'}"], Status.FAILED, "[sink] path: "),
    ],
)
def test_dry_run_finds(made: Directory, dry: tuple[str, str], overrides: list[str], status: int, expected: str) -> None:
    """Each is told with its place, and all the others are checked nevertheless."""
    made.declare(dry[0], PARSE, sink="")
    (made.path / "file").touch()
    (made.path / "used").mkdir()
    (made.path / "used" / "data.csv").touch()
    options = []
    for override in overrides:
        written = override.replace("<path>", str(made.path)).replace("<topic>", dry[0]).replace("<copy>", dry[1])
        options += ["--set", written]
    result = made.command("--dry-run", *options)
    assert result.exit_code == status, result.output
    wrong = [line for line in result.stdout.splitlines() if "WRONG" in line]
    assert len(wrong) == 1, result.output
    assert expected in wrong[0]
    assert "  right  " in result.stdout
    assert f"clicks: 1 of {len(result.stdout.splitlines()) - 1} checks failed" in result.stdout


@pytest.fixture(scope="module")
def dry(topics: Topics) -> tuple[str, str]:
    """Return two topics that are looked at only."""
    return topics.create(), topics.create()


def test_unreachable_brokers(made: Directory) -> None:
    """By the dry run and by the run, with what was tried."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        made.hosts = f"127.0.0.1:{server.getsockname()[1]}"
    made.declare("clicks")
    for options in ([], ["--dry-run"]):
        result = made.command(*options)
        assert result.exit_code == Status.UNREACHABLE
        assert f"TCP {made.hosts}" in result.output


def test_too_few_partitions(made: Directory, topics: Topics) -> None:
    """A mirror keeps partitions, if they are there."""
    topic, copy = topics.create(3), topics.create(2)
    made.declare(topic, sink=f'[sink]\nformat = "topic"\ntopic = "{copy}"\n')
    result = made.command("--dry-run")
    assert result.exit_code == Status.FAILED
    assert f"WRONG  [sink]: {copy} has 2 partitions, and records of partition 2 would go" in result.stdout


def test_checkpoint_of_another(made: Directory, topics: Topics) -> None:
    """Spark would take new micro-batches for those that the directory has, and leave them out."""
    topic = topics.create()
    topics.produce(topic, [Record(b"one")])
    made.declare(topic)
    made.run()
    for options in (["--dry-run"], []):
        result = made.command(*options, "--set", f"checkpoint={made.path}/another")
        assert result.exit_code == Status.FAILED
        assert "has been written up to micro-batch 0 by a pipeline with another checkpoint" in result.output


def test_events_and_a_restart(made: Directory, topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of JSON say what happens; a pipeline that fails once starts again, and lands each row once."""
    topic = topics.create(3)
    topics.produce(topic, [*clicks(range(300)), Record(b"nonsense", None, 1)])
    made.declare(topic, "[source.options]\nmaxOffsetsPerTrigger = 200", PARSE, made.keep())
    made.file.write_text(made.file.read_text() + '[restart]\nbackoff = "1 millisecond"\n')
    begin, failures = landing.start, [StreamingQueryException("the broker hung up")]

    def fail_once(*args: Any) -> StreamingQuery:
        if args[3] == "clicks" and failures:
            raise failures.pop()
        return begin(*args)

    monkeypatch.setattr(running, "start", fail_once)
    result = made.command("--progress", "json", "--metrics", "127.0.0.1:0")
    assert result.exit_code == 0, result.output
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["event"] for one in events if one["event"] not in ("batch", "recovered")] == [
        "started",
        "failed",
        "restarting",
        "started",
        "ended",
    ]
    assert (events[-1]["status"], {one["pipeline"] for one in events}) == ("done", {"clicks"})
    batches = [one for one in events if one["event"] == "batch" and one["query"] == "clicks"]
    assert sum(one["rows"] for one in batches) == 301
    assert sum(one["malformed"] for one in batches) == 1
    assert len(batches) > 1
    assert batches[-1]["offsets"] == {topic: {"0": 100, "1": 101, "2": 100}}
    assert batches[-1]["durations_ms"]["triggerExecution"] > 0
    assert sorted(row.ms for row in made.rows()) == list(range(300))
    assert len(made.rows("malformed")) == 1


def test_dead_letters(made: Directory, topics: Topics, spark: SparkSession) -> None:
    """A record that fails goes to a topic in the same pass, once for two sinks, and never gets lost."""
    topic, dead = topics.create(3), topics.create(1)
    flag = made.path / "flag"

    def fail_once(ms: int | None) -> bool:
        if ms == 450 and flag.exists():
            flag.unlink()
            raise RuntimeError("the first try fails")
        return True

    spark.udf.register("fail_once", fail_once, "boolean")
    bad = [Record(value, b"bad", 1, [("h", b"1"), ("n", None)]) for value in MALFORMED]
    topics.produce(topic, [*clicks(range(300)), *bad, Record(None, b"tombstone", 2)])
    made.declare(
        topic,
        "[source.options]\nmaxOffsetsPerTrigger = 200",
        PARSE,
        f'[dead_letters]\ntopic = "{dead}"\n',
        '[[transform]]\nview = "checked"\n'
        "sql = \"SELECT *, CASE WHEN ms % 50 = 7 THEN concat('no ', ms) END AS error FROM records\"",
        '[[transform]]\nview = "ready"\nsql = "SELECT user, ms, kafka.offset FROM checked WHERE fail_once(ms)"',
        sink=f'[[sink]]\nformat = "parquet"\npath = "{made.path}/landed"\n'
        f'[[sink]]\nname = "users"\nfrom = "checked"\nformat = "parquet"\npath = "{made.path}/users"\n',
    )

    def letters() -> list[tuple[Row, dict[str, str]]]:
        reader = spark.read.format("pykafka").option("kafka.bootstrap.servers", made.hosts).option("subscribe", dead)
        found = reader.option("includeHeaders", "true").load().collect()
        return [(row, {one.key: one.value.decode() for one in row.headers if one.value is not None}) for row in found]

    if not is_supported():
        with pytest.raises(DeclarationError, match=r"\[dead_letters\]: needs PySpark 4.1 or later"):
            made.run_all()
        return
    done, _ = made.run_all()
    assert (done.records, done.malformed, done.dead_letters) == (310, len(MALFORMED), len(MALFORMED) + 6)
    assert len(made.rows()) == 310 - len(MALFORMED) - 6
    assert len(made.rows("users")) == len(made.rows())
    found = letters()
    assert len(found) == len(MALFORMED) + 6
    unparsed = [(row, about) for row, about in found if about["dlq.reason"] == "the value is no JSON of the schema"]
    assert sorted(bytes(row.value) for row, _ in unparsed) == sorted(MALFORMED)
    row, about = unparsed[0]
    assert (bytes(row.key), [one.key for one in row.headers][:2], row.headers[1].value) == (b"bad", ["h", "n"], None)
    assert (about["dlq.topic"], about["dlq.partition"], about["dlq.pipeline"]) == (topic, "1", "clicks")
    assert 1_700_000_000_000 < int(about["dlq.timestamp"]) < 4_000_000_000_000
    assert {about["dlq.reason"] for _, about in found} >= {"no 7", "no 257"}

    topics.produce(topic, clicks(range(300, 500)))
    flag.touch()
    with pytest.raises(StreamingQueryException):
        made.run_all()
    made.run_all()
    assert not flag.exists()
    assert len(made.rows()) == 510 - len(MALFORMED) - 10
    places = {(about["dlq.partition"], about["dlq.offset"]) for _, about in letters()}
    assert len(places) == len(MALFORMED) + 10  # a task that is tried again sends them again, and leaves none out


def test_what_dead_letters_need(made: Directory, topics: Topics) -> None:
    made.declare(
        topics.create(),
        PARSE,
        f'[dead_letters]\ntopic = "{topics.create()}"\n[[transform]]\nsql = "SELECT ms, user AS error FROM records"',
    )
    result = made.command()
    assert result.exit_code == Status.USAGE
    assert (
        "[transform 1] sql: has a column 'error', which makes dead letters of rows, and not the struct 'kafka'"
        in result.output
    )
