"""The helper that starts real brokers: that they work, that they obey, and that they never outlive their starter."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from tests.brokers import BrokerSetupError, KafkaCluster, jars, make_certificates, maven_jar, release
from tests.brokers.cluster import free_ports, known_brokers
from tests.brokers.formatting import template_of, write_log_directories
from tests.brokers.process import JavaProcess, wait_until

ROOT = Path(__file__).resolve().parents[2]


def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def round_trip(hosts: str, topic: str, **settings: object) -> None:
    common = {"bootstrap.servers": hosts, "log_level": 0, **settings}
    producer = confluent_kafka.Producer(common)
    for number in range(20):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer(common | {"group.id": f"g-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        assert len(consumer.consume(20, 30)) == 20
    finally:
        consumer.close()


@pytest.mark.needs("latest")
def test_one_broker(kafka: KafkaCluster) -> None:
    round_trip(kafka.hosts, "brokers-one")
    assert kafka.version == "4.3.1"
    assert "started" in kafka.log(1)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", ["0.8.2.2", "0.9.0.1", "2.8.2", "3.9.2"])
def test_older_releases(version: str) -> None:
    with KafkaCluster(version) as kafka:
        assert known_brokers(kafka.ports[1]) == {1}
        pid = kafka.pid(1)
        assert pid is not None
    assert gone(pid)


@pytest.mark.needs("latest")
@pytest.mark.timeout(300)
def test_three_brokers_obey(kafka3: KafkaCluster) -> None:
    def seen() -> set[int]:
        return known_brokers(kafka3.ports[1])

    round_trip(kafka3.hosts, "brokers-three")
    kafka3.kill(2)
    until(lambda: seen() == {1, 3})
    kafka3.start(2)
    until(lambda: seen() == {1, 2, 3})
    kafka3.stop(3)
    until(lambda: seen() == {1, 2})
    kafka3.start(3)
    kafka3.pause(3)
    until(lambda: seen() == {1, 2})
    kafka3.resume(3)
    until(lambda: seen() == {1, 2, 3})


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_tls_and_own_settings() -> None:
    with KafkaCluster(tls=True, config={"ssl.client.auth": "required", "num.partitions": 3}) as kafka:
        made = kafka.certificates
        assert made is not None
        round_trip(
            kafka.tls_hosts,
            "brokers-tls",
            **{
                "security.protocol": "SSL",
                "ssl.ca.location": str(made.cafile),
                "ssl.certificate.location": str(made.client_certfile),
                "ssl.key.location": str(made.locked_keyfile),
                "ssl.key.password": made.password,
            },
        )
        directory = kafka.directory
    assert not directory.exists()


@pytest.mark.needs("latest")
def test_a_java_program_against_the_jars(kafka: KafkaCluster, tmp_path: Path) -> None:
    program = tmp_path / "Codes.java"
    text = (
        "public class Codes { public static void main(String[] a) {"
        " System.out.println(org.apache.kafka.common.protocol.Errors.forCode((short) 6)); } }"
    )
    program.write_text(text)
    assert kafka.run_java(str(program)).strip().splitlines()[-1] == "NOT_LEADER_OR_FOLLOWER"
    # The classes of the first one are kept, and are not those of the second.
    program.write_text(text.replace("6", "3"))
    assert kafka.run_java(str(program)).strip().splitlines()[-1] == "UNKNOWN_TOPIC_OR_PARTITION"
    program.write_text(text.replace("forCode", "ofCode"))
    with pytest.raises(BrokerSetupError, match=r"Codes\.java does not compile:\n.*cannot find symbol"):
        kafka.run_java(str(program))
    with pytest.raises(BrokerSetupError, match="ended with 1"):
        kafka.run_java("no.such.Program")


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGKILL", "stdin closes"])
def test_by_hand_nothing_outlives_the_starter(how: str, tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.brokers"],
        env=environment,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        port = int(starter.stdout.readline().strip().rpartition(":")[2])
        assert known_brokers(port) == {1}
        if how == "stdin closes":
            starter.stdin.close()
        else:
            starter.send_signal(signal.Signals[how])
        assert starter.wait(20) == (-signal.SIGKILL if how == "SIGKILL" else 0)
    until(lambda: known_brokers(port) == set(), 10)
    until(lambda: not list(tmp_path.iterdir()), 10)


@pytest.mark.kafka
def test_a_jvm_that_fails_is_reported_with_its_last_words(tmp_path: Path) -> None:
    process = JavaProcess(["no.such.Program"], tmp_path / "out")
    process.start()
    with pytest.raises(BrokerSetupError, match=r"its process ended.*\n.*no\.such\.Program"):
        wait_until(lambda: False, 30, "it", process)
    process.kill()


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_a_broker_that_refuses_its_settings_is_reported() -> None:
    with pytest.raises(BrokerSetupError, match="its last words"), KafkaCluster(config={"log.retention.hours": "x"}):
        pass


def test_certificates(tmp_path: Path) -> None:
    made = make_certificates(tmp_path, names=["DNS:localhost"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made.certfile, made.keyfile)
    client = ssl.create_default_context(cafile=str(made.cafile))
    client.load_cert_chain(made.client_certfile, made.locked_keyfile, made.password)
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(ours, theirs, server_hostname="localhost")
    other = server.wrap_bio(theirs, ours, server_side=True)
    pending = [one, other]
    for _ in range(10):
        for side in list(pending):
            try:
                side.do_handshake()
                pending.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert not pending
    assert one.getpeercert()


def test_the_formatter_runs_once_for_all_nodes_with_the_same_users(tmp_path: Path) -> None:
    runs: list[Path] = []

    def formatted() -> Path:
        made = tmp_path / f"made-{len(runs)}"
        (made / "metadata").mkdir(parents=True)
        (made / "metadata" / "first.checkpoint").write_bytes(b"levels")
        (made / "meta.properties").write_text("node.id=1\n")
        runs.append(made)
        return made

    for arguments in ((), ("--add-scram", "alice"), ()):
        template = template_of(tmp_path / "kafka-4.3.1", arguments, formatted)
    assert len(runs) == 2
    ids: set[str] = set()
    for node in (1, 2):
        directories = [tmp_path / f"data-{node}-{number}" for number in (1, 2)]
        write_log_directories(directories, template, "a-cluster", node)
        assert (directories[0] / "metadata" / "first.checkpoint").read_bytes() == b"levels"
        assert not (directories[1] / "metadata").exists()
        for directory in directories:
            lines = (directory / "meta.properties").read_text().splitlines()
            properties = dict(line.split("=") for line in lines)
            ids.add(properties.pop("directory.id"))
            assert properties == {"version": "1", "cluster.id": "a-cluster", "node.id": str(node)}
    assert len(ids) == 4


def test_free_ports_can_be_bound() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        with socket.socket() as one:
            one.bind(("127.0.0.1", port))


def test_free_ports_are_kept_from_other_processes() -> None:
    """Another part of the tests took the port of a broker that was to start again."""
    (port,) = free_ports(1)
    code = f"from tests.brokers.cluster import _claim; print(_claim({port}))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60) == "False\n"


@pytest.mark.parametrize("version", ["0.7.2", "2.0.0", "nonsense"])
def test_an_unknown_release_is_refused_by_name(version: str) -> None:
    with pytest.raises(ValueError, match=version):
        KafkaCluster(version)


def test_later_releases_are_taken_for_kraft() -> None:
    assert release("4.9.0").kraft


def test_without_java_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(BrokerSetupError, match="install a JDK 17"):
        jars.java()


@pytest.mark.kafka
def test_jars_come_from_the_cache_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    path = maven_jar("org.apache.kafka:kafka-clients:4.3.1")
    assert path.is_file()
    monkeypatch.setenv("PATH", "")
    assert maven_jar("org.apache.kafka:kafka-clients:4.3.1") == path


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_without_maven_the_ivy_of_pyspark_fetches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "_maven", lambda *_: None)
    assert maven_jar("org.slf4j:slf4j-api:1.7.36").is_file()
    # Once more, with what it depends on.
    found = sorted(path.name for path in jars.classpath(["org.slf4j:slf4j-nop:1.7.36"]).glob("*.jar"))
    assert found == ["slf4j-api-1.7.36.jar", "slf4j-nop-1.7.36.jar"]


def test_without_either_the_user_hears_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "_maven", lambda *_: None)
    monkeypatch.setattr(jars, "_ivy", lambda *_: None)
    with pytest.raises(BrokerSetupError, match="install Maven"):
        maven_jar("org.slf4j:slf4j-api:1.7.36")


def test_a_failed_download_says_what_the_tool_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "_maven", lambda *_: ["/bin/sh", "-c", "echo no route; exit 3"])
    with pytest.raises(BrokerSetupError, match=r"check the network(.|\n)*no route"):
        maven_jar("org.slf4j:slf4j-api:1.7.36")
    assert not list((tmp_path / "pykafka" / "jars").glob("*/"))
