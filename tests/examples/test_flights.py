"""The flights job: as a whole, ended early, and where something is missing."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import time
from pathlib import Path

import pandas as pd
import pytest

from examples.flights import check, data
from examples.flights.produce import MessagesDroppedError, check_kept
from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.testing import FakeCluster
from tests.brokers import KafkaCluster
from tests.support.programs import program, run

FLIGHTS = "examples.flights"
#: How long the job may take to end after a signal (s).
END_TIMEOUT_S = 5.0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_whole_job_on_embedded_broker(tmp_path: Path) -> None:
    """All flights: everything is counted once and every aggregate is right."""
    status, output = run(FLIGHTS, "--directory", str(tmp_path), timeout=390)
    assert status == 0, output
    assert_right(output, tmp_path)
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")


def assert_right(output: str, directory: Path) -> None:
    """Assert that a whole job has checked its results, and left nothing else behind."""
    assert "right: 336,776 flights, each landed once" in output
    assert output.count("right: ") == 4
    assert "1,556 flights without weather, 8,255 that never left" in output
    assert sorted(path.name for path in directory.iterdir()) == ["checkpoints", "delays.png", "landed", "spark.log"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(700)
def test_whole_job_on_a_cluster(tmp_path: Path) -> None:
    """CLUSTER=spark: bare Pythons, the archive alone, a worker killed on the way, and the same results."""
    with program(FLIGHTS, "--cluster", "spark", "--directory", str(tmp_path)) as job:
        assert job.wait(600) == 0, job.output
        assert job.descendants() == []
    assert_right(job.output, tmp_path)
    assert "the Pythons of driver and workers have no package" in job.output
    assert job.output.count("with its executor, by SIGKILL") == 1


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(400)
def test_signal_ends_the_cluster(tmp_path: Path) -> None:
    """SIGTERM while master, workers and executors run: nothing is left."""
    with program(FLIGHTS, "--cluster", "spark", "--directory", str(tmp_path)) as job:
        job.wait_for("pipeline:", timeout=200)
        time.sleep(10)
        job.signal(signal.SIGTERM)
        assert job.wait(30) == 143, job.output
        assert job.descendants() == []
    assert not (tmp_path / "work").exists()


def test_cluster_that_is_none(tmp_path: Path) -> None:
    """A sentence, and status 2."""
    status, output = run(FLIGHTS, "--cluster", "yarn", "--directory", str(tmp_path))
    assert status == 2
    assert "CLUSTER=yarn is neither local nor spark" in output


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(400)
@pytest.mark.matrix
@pytest.mark.parametrize("broker", ["kafka", "kafka-sasl"])
def test_job_on_kafka_that_it_starts(tmp_path: Path, broker: str) -> None:
    """BROKER=kafka: a broker is started and ended with the job; kafka-sasl: over TLS, with a login, in Spark too."""
    status, output = run(FLIGHTS, "--broker", broker, "--limit", "4000", "--directory", str(tmp_path), timeout=230)
    assert status == 0, output
    assert "right: 4,000 flights, each landed once" in output


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("whole", [pytest.param(True, marks=pytest.mark.matrix), False], ids=["whole", "ended early"])
def test_job_on_brokers_of_the_user(tmp_path: Path, kafka: KafkaCluster, whole: bool) -> None:
    """BROKER=host:port: topics of its own, and no others touched."""
    with KafkaClient(kafka.hosts) as client:
        before = {topic.name for topic in client.admin.list_topics()}
    with program(FLIGHTS, "--broker", kafka.hosts, "--limit", "4000", "--directory", str(tmp_path)) as job:
        if not whole:
            job.wait_for("pipeline:")
            time.sleep(2)
            job.signal(signal.SIGTERM)
        assert job.wait(230 if whole else 30) == (0 if whole else 143), job.output
    with KafkaClient(kafka.hosts) as client:
        new = {topic.name for topic in client.admin.list_topics()} - before
        assert {name.rpartition("-")[0] for name in new} == {"flights", "weather", "delays", "alerts"}
        assert {len(topic.partitions) for topic in client.admin.describe_topics(new).values()} == {12}
    assert not whole or all(name in job.output for name in new)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("number", "line", "seconds"),
    [
        (signal.SIGINT, "brokers:", 0),
        (signal.SIGTERM, "produce:", 0.5),
        pytest.param(signal.SIGINT, "pipeline:", 0, marks=pytest.mark.matrix),
        pytest.param(signal.SIGTERM, "pipeline:", 2, marks=pytest.mark.matrix),
        (signal.SIGINT, "pipeline:", 5),
        pytest.param(signal.SIGTERM, "pipeline:", 8, marks=pytest.mark.matrix),
    ],
)
def test_signal_ends_all(tmp_path: Path, number: signal.Signals, line: str, seconds: float) -> None:
    """Ctrl-C or SIGTERM, at any point: it ends within five seconds, and nothing is left."""
    with program(FLIGHTS, "--directory", str(tmp_path), "--limit", "150000") as job:
        job.wait_for(line)
        time.sleep(seconds)
        sent = time.monotonic()
        job.signal(number)
        assert job.wait(30) == 128 + number, job.output
        assert time.monotonic() - sent < END_TIMEOUT_S
        assert job.descendants() == []
    assert "Traceback" not in job.output
    assert not (tmp_path / "work").exists()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seconds", [0.5, 3.0])
def test_signal_while_kafka_starts(tmp_path: Path, seconds: float) -> None:
    """A real broker that is on its way up ends, too."""
    with program(FLIGHTS, "--directory", str(tmp_path), "--limit", "1000", "--broker", "kafka") as job:
        job.wait_for("brokers:")
        time.sleep(seconds)
        sent = time.monotonic()
        job.signal(signal.SIGTERM)
        assert job.wait(30) == 143, job.output
        assert time.monotonic() - sent < END_TIMEOUT_S
        assert job.descendants() == []


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_broker_that_dies(tmp_path: Path) -> None:
    """A broker that knows no CreateTopics is good enough; when it is gone, a sentence says so, and status 1."""
    with program("pykafka.embedded") as broker:
        hosts = broker.wait_for(":")
        with program(FLIGHTS, "--broker", hosts, "--limit", "1000", "--directory", str(tmp_path)) as job:
            job.wait_for("pipeline:")
            broker.signal(signal.SIGKILL)
            broker.wait()
            assert job.wait(200) == 1, job.output
            assert job.descendants() == []
    assert "no broker could be reached" in job.output
    assert "flights: pipeline failed with exit status 1" in job.output
    assert "Traceback" not in job.output


def test_broker_that_is_not_there(tmp_path: Path) -> None:
    """A sentence that says where nobody answered and what to do, and status 2."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        hosts = f"127.0.0.1:{server.getsockname()[1]}"
    status, output = run(FLIGHTS, "--broker", hosts, "--directory", str(tmp_path))
    assert status == 2
    assert f"flights: no Kafka broker answers at {hosts}: start one" in output
    assert "Traceback" not in output


def test_one_run_a_directory(tmp_path: Path) -> None:
    """A second run does not take away what the first is working on."""
    lock = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (tmp_path / "landed").mkdir()
        status, output = run(FLIGHTS, "--directory", str(tmp_path))
    finally:
        os.close(lock)
    assert status == 2
    assert output == f"flights: another run is using {tmp_path}: wait for its end, or name another --directory"
    assert (tmp_path / "landed").exists()


@pytest.mark.parametrize("broker", ["nonsense.invalid", "127.0.0.1:99999", ":"])
def test_address_that_is_none(tmp_path: Path, broker: str) -> None:
    """A sentence, and status 2."""
    status, output = run(FLIGHTS, "--broker", broker, "--directory", str(tmp_path))
    assert status == 2, output
    assert f"flights: no Kafka broker answers at {broker}: " in output or f"flights: BROKER={broker} is no" in output
    assert "Traceback" not in output


def test_no_java(tmp_path: Path) -> None:
    """Without Java: a sentence, and status 2, before anything is started."""
    status, output = run(FLIGHTS, "--directory", str(tmp_path), environment={"PATH": str(tmp_path), "JAVA_HOME": ""})
    assert status == 2
    assert output.startswith("flights: Spark needs Java, and there is no `java` here: install a JDK 17")
    assert output.count("\n") == 0


@pytest.mark.parametrize("words", ['openjdk version "11.0.2" 2019-01-15', 'java version "1.8.0_392"'])
def test_java_too_old(tmp_path: Path, words: str) -> None:
    """With an old Java: a sentence that names it."""
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho '{words}' >&2\n")
    java.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    status, output = run(FLIGHTS, "--directory", str(tmp_path), environment={"PATH": path, "JAVA_HOME": ""})
    assert status == 2
    assert f"Spark needs Java 17 or later, and {java} is version" in output
    assert output.count("\n") == 0


def test_messages_that_the_broker_dropped_are_noticed() -> None:
    """A job misses what retention has deleted: the job does not go on with what is left."""
    value = os.urandom(500_000)
    with FakeCluster(1, {"small": 1}) as cluster, KafkaClient(cluster.hosts) as client:
        with client.producer(linger_ms=0) as producer:
            producer.produce("small", value).get(timeout=10)
            check_kept(client, "small", 1)
            for _ in range(15):
                producer.produce("small", value).get(timeout=10)
        cluster.delete_before("small", 0, 6)
        with pytest.raises(MessagesDroppedError, match="dropped the oldest"):
            check_kept(client, "small", 16)


def test_foreign_messages_are_noticed() -> None:
    """A topic that somebody else writes to gives no right counts."""
    with EmbeddedCluster(1, {"shared": 1}) as cluster, KafkaClient(cluster.hosts) as client:
        with client.producer() as producer:
            producer.produce("shared", b"theirs").get(timeout=10)
        with pytest.raises(MessagesDroppedError, match="holds 1 messages, but 0 were produced"):
            check_kept(client, "shared", 0)


@pytest.fixture(scope="module")
def truth() -> pd.DataFrame:
    """Return the first flights, with their weather."""
    return check.load_truth(3000)


def test_data_is_what_pandas_reads(truth: pd.DataFrame) -> None:
    """The events and the checks read the same files in two ways."""
    events = list(data.flights(3000))
    assert len(events) == data.count_flights(3000) == len(truth)
    for name in ("carrier", "flight", "dep_delay", "arr_time", "tailnum", "time_hour"):
        assert [event[name] for event in events] == [check.plain(value) for value in truth[name]]
    assert sum(1 for _ in data.weather()) == 26_115


def test_data_counts() -> None:
    """The whole data is what the job expects."""
    assert data.count_flights() == 336_776


def test_check_accepts_what_is_right(truth: pd.DataFrame) -> None:
    """Nothing differs from itself."""
    wanted = check.expected(truth, check.WEATHER)
    assert sum(value[0] for value in wanted.values()) == 3000
    assert check.compare(wanted, list(wanted.items())) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda rows: rows[1:], "is missing"),
        (lambda rows: [*rows, rows[0]], "is there 2 times"),
        (lambda rows: [*rows, (("EWR", "XX", 1), rows[0][1])], "should not be there"),
        (lambda rows: [(rows[0][0], (rows[0][1][0] + 1, *rows[0][1][1:])), *rows[1:]], "and should be"),
    ],
)
def test_check_notices(truth: pd.DataFrame, change: object, line: str) -> None:
    """Each kind of difference is found, once."""
    assert callable(change)
    wanted = check.expected(truth, check.MONTH)
    lines = check.compare(wanted, change(list(wanted.items())))
    assert len(lines) == 1
    assert line in lines[0]


def test_check_counts_a_repeated_alert_once(truth: pd.DataFrame) -> None:
    """A streaming sink may write a row twice, after a retry; it may not leave one out."""
    late = truth[truth.dep_delay > 120]
    names = ["carrier", "flight", "origin", "dest", "time_hour", "dep_delay"]
    alerts = [{name: check.plain(value) for name, value in row.items()} for row in late[names].to_dict("records")]
    assert check.compare_alerts(truth, [*alerts, alerts[0]]) == []
    assert check.compare_alerts(truth, alerts[1:]) != []
