"""The nouns of kafka-tools against real brokers: what they print, change and leave alone, and what they exit with."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from rich.console import Console

from pykafka import KafkaClient
from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION

pytestmark = [pytest.mark.kafka, pytest.mark.needs("latest")]

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """Yield two brokers with an authorizer."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "transaction.partition.verification.enable": "false",
    }
    with KafkaCluster(KAFKA_VERSION, brokers=2, config=config) as cluster:
        yield cluster


@pytest.fixture
def run(guarded: KafkaCluster) -> Run:
    """Run a command and return its result; any exit status but the one named fails the test."""

    def run(*arguments: str, status: int = 0, given: str = "") -> Result:
        result = CliRunner().invoke(tools, ["-b", guarded.hosts, *arguments], input=given)
        assert result.exit_code == status, result.output
        return result

    return run


@pytest.fixture
def client(guarded: KafkaCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=guarded.hosts) as client:
        yield client


def unique(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex[:10]}"


def data(result: Result) -> Any:
    return json.loads(result.stdout)


def rows(result: Result) -> list[list[str]]:
    """Return the cells of a table, without its headings."""
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    begin = next(number for number, line in enumerate(lines) if set(line.strip()) == {"─"}) + 1
    return [line.split() for line in lines[begin:]]


@pytest.fixture
def topic(run: Run) -> Iterator[str]:
    """Yield a topic of two partitions, with 5 messages in each."""
    name = unique("topic")
    run("topics", "create", name, "-p", "2", "-r", "1", "-c", "retention.ms=7000000")
    run("produce", name, given="".join(f"{number}\n" for number in range(10)))
    yield name
    run("topics", "delete", name, "--yes")


def eventually(check: Callable[[], object]) -> None:
    """Repeat a check while it fails: brokers learn of changes a little later."""
    deadline = time.monotonic() + 30
    while True:
        try:
            check()
            return
        except AssertionError:
            if time.monotonic() > deadline:
                raise


# -- topics and settings


def test_topics_come_and_go(run: Run) -> None:
    one, two = unique("one"), unique("two")
    options = ("-p", "3", "-r", "1", "-c", "cleanup.policy=compact")
    assert (
        f"Would create topic {one} with 3 partitions, 1 replica each."
        in run("topics", "create", one, two, *options, "--dry-run").stdout
    )
    assert one not in run("topics", "list").stdout
    made = data(run("topics", "create", one, two, *options, "--json"))
    assert [(each["topic"], each["partitions"], each["error"]) for each in made] == [(one, 3, None), (two, 3, None)]
    again = run("topics", "create", one, status=Status.FAILED)
    assert "already exists" in again.stderr
    assert [one, "3", "1", "0", "0"] in rows(run("topics", "list"))
    assert run("topics", "list", "--unhealthy").stdout.count(one) == 0
    described = data(run("topics", "describe", one, two, "--json"))
    assert [each["topic"] for each in described] == [one, two]
    assert described[0]["settings"] == {"cleanup.policy": "compact"}
    assert f"Topic: {one}" in run("topics", "describe", one).stdout
    assert "Would delete" in run("topics", "delete", one, "--dry-run").stdout
    gone = run("topics", "delete", one, two, "missing", "--yes", status=Status.NOT_FOUND)
    assert gone.stdout == f"Deleted topic {one}.\nDeleted topic {two}.\n"
    assert "topic=missing" in gone.stderr
    assert one not in run("topics", "list").stdout


def test_some_topics_are_missing(run: Run, topic: str) -> None:
    result = run("topics", "describe", topic, "missing", "--json", status=Status.NOT_FOUND)
    assert [one["topic"] for one in data(result)] == [topic]
    assert "missing" in result.stderr


def test_partitions_are_added(run: Run, topic: str) -> None:
    line = ("topics", "add-partitions", topic, "4")
    assert "would have 4 partitions, 2 more" in run(*line, "--dry-run").stdout
    assert run(*line, "--yes", "-a", '{"2": [1], "3": [2]}').stdout == f"Topic {topic} has 4 partitions, 2 more.\n"
    parts = data(run("topics", "describe", topic, "--json"))[0]["partitions"]
    assert [part["replicas"] for part in parts[2:]] == [[1], [2]]
    assert "INVALID_PARTITIONS" in run(*line, "--yes", status=Status.FAILED).stderr
    assert "4 to 4" in run(*line[:-1], "5", "--yes", "-a", '{"2": [1]}', status=Status.USAGE).stderr


def test_records_are_deleted(run: Run, topic: str) -> None:
    planned = data(run("topics", "delete-records", topic, "3", "-p", "1", "--dry-run", "--json"))
    assert planned == [{"partition": 1, "earliest": 0, "latest": 5, "after": 3, "deleted": 3, "error": None}]
    assert len(run("consume", topic).stdout.split()) == 10
    assert "Delete 3 messages" in run("topics", "delete-records", topic, "3", "-p", "1", status=Status.USAGE).stderr
    assert data(run("topics", "delete-records", topic, "3", "-p", "1", "--yes", "--json")) == planned
    assert len(run("consume", topic).stdout.split()) == 7
    run("topics", "delete-records", topic, "LATEST", "--yes")
    assert run("consume", topic).stdout == ""
    run("topics", "delete-records", topic, "LATEST", "-p", "7", "--yes", status=Status.NOT_FOUND)
    run("topics", "delete-records", topic, "70", "--yes", status=Status.FAILED)


def test_settings_of_a_topic(run: Run, topic: str) -> None:
    def settings() -> dict[str, str]:
        return {one["name"]: one["value"] for one in data(run("configs", "describe", "topic", topic, "--json"))}

    assert settings()["retention.ms"] == "7000000"
    change = ("topics", "alter", topic, "--set", "cleanup.policy=compact", "--delete", "retention.ms")
    assert "Nothing was changed" in run(*change, "--dry-run").stdout
    assert settings()["retention.ms"] == "7000000"
    changed = data(run(*change, "--json"))
    assert changed["changes"] == [
        {"setting": "cleanup.policy", "before": "delete", "change": "set", "value": "compact"},
        {"setting": "retention.ms", "before": "7000000", "change": "delete", "value": None},
    ]
    eventually(lambda: _equal(settings().get("cleanup.policy"), "compact"))
    assert "retention.ms" not in settings()
    run("configs", "alter", "topic", topic, "--append", "cleanup.policy=delete")
    eventually(lambda: _equal(settings()["cleanup.policy"], "compact,delete"))
    everything = data(run("configs", "describe", "topic", topic, "--all", "--documentation", "--json"))
    assert len(everything) > 20
    assert all(one["documentation"] for one in everything)
    assert "nope" in run("topics", "alter", topic, "--set", "nope=1", status=Status.FAILED).stderr
    assert ["topic", topic] in rows(run("configs", "list", "topic"))
    run("configs", "describe", "topic", "missing", status=Status.NOT_FOUND)


def _equal(found: object, expected: object) -> None:
    assert found == expected


def test_settings_of_brokers(run: Run, guarded: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    run("configs", "alter", "broker", "1", "--set", "log.cleaner.threads=2", "--yes")
    eventually(
        lambda: _equal(
            [row for row in rows(run("configs", "describe", "broker", "1")) if row[0] == "log.cleaner.threads"],
            [["log.cleaner.threads", "2", "broker"]],
        )
    )
    run("configs", "alter", "broker", "--set", "log.cleaner.threads=2", "--yes")
    eventually(lambda: _equal("log.cleaner.threads" in run("configs", "describe", "broker").stdout, True))
    monkeypatch.setenv("STORE", "hidden-from-all")
    line = ("configs", "alter", "broker", "1", "--set", "listener.name.plaintext.ssl.key.password=${STORE}", "--yes")
    said = CliRunner().invoke(tools, ["-b", guarded.hosts, *line, "-vv"])
    assert "hidden-from-all" not in said.output


# -- groups


def offsets(run: Run, group: str) -> dict[tuple[str, int], int]:
    found = data(run("groups", "offsets", group, "--json"))
    return {(one["topic"], one["partition"]): one["committed"] for one in found}


def test_offsets_of_a_group(run: Run, topic: str, tmp_path: Path) -> None:
    group, other = unique("group"), unique("other")
    run("topics", "create", other, "-p", "1", "-r", "1")
    reset = ("groups", "reset", group)
    assert data(run(*reset, "--topic", f"{topic}:1", "--to-offset", "4", "--yes", "--json")) == [
        {"topic": topic, "partition": 1, "before": None, "after": 4, "error": None}
    ]
    run(*reset, "--topic", topic, "--topic", other, "--to-earliest", "--yes")
    assert offsets(run, group) == {(topic, 0): 0, (topic, 1): 0, (other, 0): 0}
    planned = data(run(*reset, "--all-topics", "--shift-by", "2", "--dry-run", "--json"))
    assert {one["after"] for one in planned if one["topic"] == topic} == {2}
    assert offsets(run, group)[topic, 0] == 0
    run(*reset, "--topic", topic, "--shift-by", "2", "--yes")
    assert "Total lag: 6 messages." in run("groups", "offsets", group, "--topic", topic).stdout
    file = tmp_path / "offsets.csv"
    file.write_text(run("groups", "offsets", group, "--csv").stdout)
    run(*reset, "--all-topics", "--to-latest", "--yes")
    assert offsets(run, group)[topic, 0] == 5
    run(*reset, "--from-file", str(file), "--yes")
    assert offsets(run, group)[topic, 0] == 2
    run(*reset, "--topic", f"{topic}:0", "--by-duration", "1h", "--yes")
    run(*reset, "--topic", f"{topic}:1", "--to-datetime", "2100-01-01", "--yes")
    assert offsets(run, group) == {(topic, 0): 0, (topic, 1): 5, (other, 0): 0}
    file.write_text(f"{topic},0,3\n{topic},1,50\n")
    clipped = run(*reset, "--from-file", str(file), "--yes")
    assert f"{topic}-1 has the offsets 0 to 5: 5 replaces 50" in clipped.stderr
    assert (offsets(run, group)[topic, 0], offsets(run, group)[topic, 1]) == (3, 5)
    assert "Would delete" in run("groups", "delete-offsets", group, other, "--dry-run").stdout
    run("groups", "delete-offsets", group, other, "--yes")
    assert (other, 0) not in offsets(run, group)
    run("groups", "delete", group, "--yes")
    assert "not found" in run("groups", "offsets", group, status=Status.NOT_FOUND).stderr
    run(*reset, "--all-topics", "--to-latest", "--yes", status=Status.NOT_FOUND)
    run(*reset, "--topic", "missing", "--to-latest", "--yes", status=Status.NOT_FOUND)
    run("topics", "delete", other, "--yes")


def test_a_reset_shows_its_plan_before_it_asks(
    run: Run, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = unique("group")
    reset = ("groups", "reset", group)
    assert "Give --yes" in run(*reset, "--topic", topic, "--to-latest", status=Status.USAGE).stderr
    run(*reset, "--topic", topic, "--to-earliest", "--yes")
    monkeypatch.setattr("pykafka.cli.verbs.can_ask", lambda: True)
    refused = run(*reset, "--topic", topic, "--to-offset", "9", "--json", status=Status.FAILED, given="n\n")
    plan, _, question = refused.stderr.partition(f"Reset the offsets of group {group}?")
    assert [line.split() for line in plan.splitlines() if line.startswith(topic)] == [
        [topic, "0", "0", "5"],
        [topic, "1", "0", "5"],
    ]
    assert "5 replaces 9" in plan
    assert "Nothing was changed." in question
    assert refused.stdout == ""
    assert offsets(run, group) == {(topic, 0): 0, (topic, 1): 0}
    done = run(*reset, "--topic", f"{topic}:0", "--to-latest", "--json", given="y\n")
    assert data(done) == [{"topic": topic, "partition": 0, "before": 0, "after": 5, "error": None}]
    assert done.stderr.index(topic) < done.stderr.index("Reset the offsets")
    assert offsets(run, group) == {(topic, 0): 5, (topic, 1): 0}
    # What cannot be reset is reported before the question, and fails the command all the same.
    file = tmp_path / "offsets.csv"
    file.write_text(f"group,topic,partition,offset\n{group},{topic},0,1\nother,{topic},0,4\n{group},{topic},7,1\n")
    some = run(*reset, "--from-file", str(file), "--json", status=Status.NOT_FOUND, given="y\n")
    assert [(one["partition"], one["after"], one["error"] is None) for one in data(some)] == [
        (0, 1, True),
        (7, None, False),
    ]
    assert some.stderr.index("partition=7") < some.stderr.index("Reset the offsets")
    file.write_text(f"{topic},7,1\n")
    assert "Reset the offsets" not in run(*reset, "--from-file", str(file), status=Status.NOT_FOUND).stderr
    run("groups", "delete", group, "--yes")


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_a_terminal_and_cut_nothing(
    run: Run, topic: str, client: KafkaClient, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a lag a "…" was left, and of a host "127.…"."""
    group = unique("a-group-with-a-long-name-as-they-are-in-companies")
    monkeypatch.setattr("pykafka.cli.show.console", lambda *_: Console(width=width, height=50, highlight=False))
    consumer = client.topics[topic].get_balanced_consumer(group, managed=True, consumer_timeout_ms=20_000)
    with consumer:
        assert consumer.consume() is not None
        consumer.commit_offsets()
        commands = (
            *(f"groups describe {group}", f"groups offsets {group}", "groups list", "print_managed_consumer_groups"),
            *(f"topics describe {topic}", "topics list", "cluster describe", "quorum describe", "features describe"),
            *("log-dirs list", f"log-dirs describe {topic}", f"print_consumer_lag {topic} {group}"),
            *("configs describe broker 1 --all", f"transactions producers {topic}", "acls list"),
        )
        shown = {command: run(*command.split()).stdout for command in commands}
    for command, text in shown.items():
        assert "…" not in text, command
        # A sentence may be longer: the terminal breaks it.
        assert all(len(line) <= width for line in text.splitlines() if not line.startswith(f"{group}:")), command
    for command in ("groups list", "print_managed_consumer_groups", f"groups describe {group}"):
        assert group in shown[command], command
    assert "127.0.0.1" in shown[f"groups describe {group}"]
    assert {broker.address for broker in client.brokers.values()} <= set(shown["cluster describe"].split())


def test_a_group_with_a_member(run: Run, topic: str, guarded: KafkaCluster, client: KafkaClient) -> None:
    group = unique("group")
    consumer = client.topics[topic].get_balanced_consumer(group, managed=True, consumer_timeout_ms=20_000)
    with consumer:
        assert consumer.consume() is not None
        assert [group, "classic", "Stable", "consumer"] in [row[:4] for row in rows(run("groups", "list"))]
        assert group not in run("groups", "list", "--type", "share").stdout
        assert group not in run("groups", "list", "--state", "Empty").stdout
        described = data(run("groups", "describe", group, "--json"))
        (member,) = described[0]["members"]
        assert [one["partition"] for one in member["assignment"]] == [0, 1]
        assert f"{topic}-0, {topic}-1" in run("groups", "describe", group).stdout
        reset = run("groups", "reset", group, "--topic", topic, "--to-latest", "--yes", status=Status.FAILED)
        assert "has 1 member" in reset.stderr
        assert "has 1 member" in run("groups", "delete", group, "--dry-run", status=Status.FAILED).stderr
        run("groups", "delete", group, "--yes", status=Status.FAILED)
        assert "Would remove" in run("groups", "remove-members", group, "--all", "--dry-run").stdout
        assert "Removed" in run("groups", "remove-members", group, "--member", member["member_id"], "--yes").stdout
    run("groups", "describe", "missing", status=Status.NOT_FOUND)


# -- security


def test_acls(run: Run) -> None:
    name = unique("clicks")
    line = ("-r", f"topic:{name}", "-P", "User:bob", "-O", "read", "-O", "describe")
    assert "Nothing was changed" in run("acls", "create", *line, "--dry-run").stdout
    assert run("acls", "create", *line).stdout.count("Created: ALLOW User:bob") == 2
    several = (
        "-r",
        f"topic:{name[:4]}",
        "-r",
        f"group:{name}",
        "--prefixed",
        "--deny",
        "-P",
        "User:bob",
        "-O",
        "write",
    )
    assert run("acls", "create", *several).stdout.count("Created: DENY User:bob") == 2

    def listed() -> list[tuple[str, str, str]]:
        found = data(run("acls", "list", "-r", f"topic:{name}", "-P", "User:bob", "--json"))
        return sorted((one["operation"], one["permission"], one["pattern"]) for one in found)

    eventually(
        lambda: _equal(
            listed(), [("describe", "allow", "literal"), ("read", "allow", "literal"), ("write", "deny", "prefixed")]
        )
    )
    assert "Delete 1 ACL?" in run("acls", "delete", *line[:6], status=Status.USAGE).stderr
    assert "Nothing was changed" in run("acls", "delete", *line[:6], "--dry-run").stdout
    assert "Deleted 1 ACL." in run("acls", "delete", *line[:6], "--yes").stdout
    assert "Deleted" in run("acls", "delete", "-P", "User:bob", "--yes").stdout
    eventually(lambda: _equal(listed(), []))


def test_acls_without_an_authorizer(kafka: KafkaCluster) -> None:
    result = CliRunner().invoke(tools, ["-b", kafka.hosts, "acls", "list"])
    assert result.exit_code == Status.FAILED
    assert "SECURITY_DISABLED" in result.stderr


def test_users(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    user = unique("user")
    monkeypatch.setenv("PASSWORD", "hidden-from-all")
    assert "Nothing was changed" in run("users", "set", user, "--dry-run", given="hidden-from-all\n").stdout
    both = ("-m", "SCRAM-SHA-256", "-m", "scram-sha-512")
    said = [run("users", "set", user, *both, "--password-from", "${PASSWORD}", "-vv")]
    (tmp_path / "password").write_text("hidden-from-all\n")
    said.append(run("users", "set", user, "--password-from", f"@{tmp_path}/password", "-i", "8192", "--json"))
    said.append(run("users", "set", user, given="hidden-from-all\n"))
    eventually(
        lambda: _equal(
            rows(run("users", "list", user)), [[user, "SCRAM-SHA-256", "4,096"], [user, "SCRAM-SHA-512", "4,096"]]
        )
    )
    assert all("hidden-from-all" not in one.output for one in said)
    assert "Would delete SCRAM-SHA-256 and SCRAM-SHA-512" in run("users", "delete", user, "--dry-run").stdout
    run("users", "delete", user, "-m", "SCRAM-SHA-256", "--yes")
    eventually(lambda: _equal(rows(run("users", "list", user)), [[user, "SCRAM-SHA-512", "4,096"]]))
    run("users", "delete", user, "--yes")
    eventually(lambda: run("users", "list", user, status=Status.NOT_FOUND))


def test_quotas(run: Run) -> None:
    user = unique("user")
    line = ("quotas", "set", "--user", user, "producer_byte_rate=1048576", "request_percentage=12.5")
    expected = [
        [user, "-", "-", "producer_byte_rate", "1,048,576"],
        [user, "-", "-", "request_percentage", "12.5"],
    ]
    assert rows(run(*line, "--dry-run"))[:2] == expected
    assert rows(run("quotas", "list", "--user", user)) == []
    assert rows(run(*line)) == expected
    eventually(lambda: _equal(rows(run("quotas", "list", "--user", user)), expected))
    assert rows(run("quotas", "set", "--user", user, "--delete", "producer_byte_rate")) == expected[1:]
    run("quotas", "set", "--default-user", "--client-id", "c", "consumer_byte_rate=5")
    eventually(
        lambda: _equal(
            rows(run("quotas", "list", "--default-user")), [["<default>", "c", "-", "consumer_byte_rate", "5"]]
        )
    )
    run("quotas", "set", "--default-user", "--client-id", "c", "--delete", "consumer_byte_rate")
    assert "nope" in run("quotas", "set", "--user", user, "nope=1", status=Status.FAILED).stderr


def test_tokens_need_a_login(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "password"
    assert "TOKEN" in run("tokens", "create", "--password-file", str(file), status=Status.FAILED).stderr
    assert not file.exists()
    assert "TOKEN" in run("tokens", "list", status=Status.FAILED).stderr


# -- transactions


def test_transactions(run: Run, topic: str, guarded: KafkaCluster) -> None:
    id_ = unique("txn")
    producer = Producer({"bootstrap.servers": guarded.hosts, "transactional.id": id_})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"message", partition=1)
    assert producer.flush(60) == 0
    assert [id_, "Ongoing"] in [row[:2] for row in rows(run("transactions", "list", "--state", "ongoing"))]
    assert id_ not in run("transactions", "list", "--state", "Empty").stdout
    (described,) = data(run("transactions", "describe", id_, "--json"))
    assert described["partitions"] == [{"topic": topic, "partition": 1}]
    (known,) = [
        one
        for one in data(run("transactions", "producers", f"{topic}:1", "--json"))
        if one["txn_start_offset"] is not None
    ]
    assert known["producer_id"] == described["producer_id"]
    assert "0 found." in run("transactions", "find-hanging", topic).stdout
    offset = str(known["txn_start_offset"])
    refused = run("transactions", "abort", f"{topic}:1", offset, "--yes", status=Status.FAILED)
    assert "does not hang" in refused.stderr
    assert (
        "begin at: " + offset in run("transactions", "abort", f"{topic}:1", "999", "--yes", status=Status.FAILED).stderr
    )
    planned = run("transactions", "abort", f"{topic}:1", offset, "--force", "--dry-run").stdout
    assert "Would abort" in planned
    producer.commit_transaction(60)
    run("transactions", "describe", "missing", status=Status.NOT_FOUND)


# -- brokers


def test_partitions_move(run: Run, topic: str, tmp_path: Path) -> None:
    def replicas() -> list[list[int]]:
        return [sorted(part["replicas"]) for part in data(run("topics", "describe", topic, "--json"))[0]["partitions"]]

    before = replicas()
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    plan.write_text(run("reassign", "plan", topic, "--replicas", "2").stdout)
    assert "Nothing was changed" in run("reassign", "start", str(plan), "--dry-run").stdout
    back.write_text(run("reassign", "start", str(plan), "--yes", "--json").stdout)
    eventually(lambda: _equal(replicas(), [[1, 2], [1, 2]]))
    eventually(lambda: _equal(data(run("reassign", "list", topic, "--json")), []))
    assert "No reassignment is under way." in run("reassign", "cancel", topic, "--yes").stdout
    assert "needed no election" in run("elect", "preferred", topic, "--dry-run").stdout
    eventually(lambda: _equal("2 partitions needed no election" in run("elect", "preferred", topic).stdout, True))
    assert "2 partitions needed no election" in run("elect", "unclean", topic, "--yes").stdout
    run("reassign", "start", str(back), "--yes")
    eventually(lambda: _equal(replicas(), before))
    assert "no broker 9" in run("reassign", "plan", topic, "--brokers", "9", status=Status.USAGE).stderr
    assert "3 replicas" in run("reassign", "plan", topic, "--replicas", "3", status=Status.USAGE).stderr


def test_directories(run: Run, topic: str) -> None:
    listed = data(run("log-dirs", "list", "--json"))
    assert {one["broker"] for one in listed} == {1, 2}
    assert len(rows(run("log-dirs", "list", "--on", "1"))) == 1
    sizes = data(run("log-dirs", "describe", topic, "--json"))
    assert [one["partition"] for one in sizes] == [0, 1]
    assert all(one["size"] > 0 for one in sizes)
    where = ("log-dirs", "move", f"{topic}:0", str(sizes[0]["broker"]))
    assert "Would move" in run(*where, sizes[0]["path"], "--dry-run").stdout
    nowhere = (*where, "/no/such/directory")
    run(*nowhere, "--dry-run", status=Status.NOT_FOUND)
    assert "LOG_DIR_NOT_FOUND" in run(*nowhere, "--yes", status=Status.NOT_FOUND).stderr


def test_the_cluster_itself(run: Run) -> None:
    described = data(run("cluster", "describe", "--json"))
    assert [one["id"] for one in described["brokers"]] == [1, 2]
    assert described["cluster_id"] in run("cluster", "describe").stdout
    run("cluster", "unregister", "7", "--yes", status=Status.NOT_FOUND)
    quorum = data(run("quorum", "describe", "--json"))
    assert quorum["leader"] in {one["id"] for one in quorum["voters"]}
    assert "leader" in run("quorum", "describe").stdout
    features = data(run("features", "describe", "--json"))
    level = features["finalized"]["metadata.version"]["high"]
    assert "metadata.version" in run("features", "describe").stdout
    run("features", "update", f"metadata.version={level + 100}", "--yes", status=Status.FAILED)
    assert "Nothing was changed" in run("features", "update", f"metadata.version={level}", "--dry-run").stdout


# -- what would fail, and what failed


def test_a_dry_run_tells_what_would_fail(run: Run, topic: str, guarded: KafkaCluster, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    rows = [(topic, 0, [1, 9]), (topic, 7, [1]), (topic, 1, [1])]
    named = [{"topic": name, "partition": id_, "replicas": its} for name, id_, its in rows]
    plan.write_text(json.dumps({"version": 1, "partitions": named}))
    result = run("reassign", "start", str(plan), "--dry-run", "--json", status=Status.FAILED)
    assert [one["partition"] for one in data(result)["partitions"]] == [1]
    assert "no broker 9" in result.stderr
    assert "partition=7" in result.stderr
    result = run("log-dirs", "move", topic, "1", "/nowhere", "--dry-run", status=Status.NOT_FOUND)
    assert "no directory /nowhere" in result.stderr
    assert data(run("cluster", "unregister", "1", "--dry-run", "--json")) == {"broker": 1, "dry_run": True}
    run("cluster", "unregister", "99", "--dry-run", status=Status.NOT_FOUND)
    voter = ("9", str(uuid.uuid4()), "--dry-run")
    assert "static" in run("quorum", "remove-voter", *voter, status=Status.UNSUPPORTED).stderr
    user = unique("user")
    run("users", "set", user, given="secret\n")
    eventually(lambda: run("users", "list", user, user))  # one that is named twice counts once
    run("users", "delete", user, "-m", "SCRAM-SHA-256", "--dry-run", status=Status.NOT_FOUND)
    run("users", "delete", user, "--yes")


def test_a_dry_run_tells_of_members(run: Run, topic: str, client: KafkaClient) -> None:
    group = unique("group")
    consumer = client.topics[topic].get_balanced_consumer(group, managed=True, consumer_timeout_ms=500)
    try:
        consumer.consume()
        consumer.commit_offsets()
        assert "1 member" in run("groups", "delete", group, "--dry-run", status=Status.FAILED).stderr
        run("groups", "delete-offsets", group, topic, "--dry-run", status=Status.FAILED)
        run("groups", "remove-members", group, "--member", "nobody", "--dry-run", status=Status.FAILED)
        run("groups", "remove-members", group, "--all", "--dry-run")
    finally:
        consumer.stop()


def test_errors_of_several_items_are_one_status_and_in_json(run: Run, topic: str, tmp_path: Path) -> None:
    result = run("reassign", "list", "no-such-topic", "nor-this", status=Status.NOT_FOUND)
    assert "`.errors`" not in result.stderr
    assert "nor-this" in result.stderr
    group, file = unique("group"), tmp_path / "offsets.csv"
    file.write_text(f"{topic},0,2\n{topic},1,99\n{topic},7,1\n")
    result = run("groups", "reset", group, "--from-file", str(file), "--yes", "--json", status=Status.NOT_FOUND)
    assert [(one["partition"], one["after"], one["error"] is None) for one in data(result)] == [
        (0, 2, True),
        (1, 5, True),
        (7, None, False),
    ]
    eventually(lambda: run("groups", "delete", group, "--yes"))


def test_a_share_group(run: Run, topic: str, client: KafkaClient) -> None:
    group = unique("share")
    run("groups", "reset", group, "--all-topics", "--to-earliest", "--yes", status=Status.NOT_FOUND)
    client.admin.alter_share_group_offsets(group, {(topic, 0): 2})

    def has(offset: int) -> None:
        found = data(run("groups", "offsets", group, "--json"))
        assert [one["committed"] for one in found if one["partition"] == 0] == [offset]

    eventually(lambda: has(2))
    run("groups", "reset", group, "--topic", topic, "--to-latest", "--yes")
    eventually(lambda: has(5))
    run("groups", "delete-offsets", group, f"{topic}:0", "--yes", status=Status.USAGE)
    assert "Deleted the offset 5" in run("groups", "delete-offsets", group, topic, "--yes").stdout
    run("groups", "delete", group, "--yes")


def test_quotas_are_numbers(run: Run) -> None:
    run("quotas", "set", "--user", unique("user"), "producer_byte_rate=nan", status=Status.USAGE)
    run("quotas", "set", "--user", unique("user"), "=5", status=Status.USAGE)
