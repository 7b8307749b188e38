"""The table of ACLs of docs/operations.md: each command with exactly these, and without each one of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from pykafka import KafkaClient
from pykafka.admin import AclBinding, AclFilter, AclOperation, NewTopic, OffsetSpec, Permission, ResourceType
from pykafka.common import TopicPartition
from tests.brokers import KafkaCluster, Sasl
from tests.docs.pages import ROOT
from tests.integration.admin.test_transactions import hang
from tests.support.features import KAFKA_VERSION
from tests.support.kafka_tools import Run, data, runner
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.needs("latest")]

PAGE = ROOT / "docs" / "operations.md"
_ROW = re.compile(r"^\| (`.*`) \| (\w+) on (?:the|all) ([\w ]+?) \| (.*) \|$", re.MULTILINE)

GROUP, LIVE_GROUP, TOPIC, TRANSACTIONS, OPEN = "billing", "live", "clicks", "payments", "copier"
OPERATOR = "User:bob"
#: {what the page calls it: (the kind of resource, the names of those that the commands use)}
RESOURCES = {
    "groups": (ResourceType.GROUP, (GROUP, LIVE_GROUP)),
    "topics": (ResourceType.TOPIC, (TOPIC, TRANSACTIONS)),
    "transactional ids": (ResourceType.TRANSACTIONAL_ID, (OPEN,)),
    "cluster": (ResourceType.CLUSTER, ("kafka-cluster",)),
}


@dataclass(frozen=True)
class Right:
    """An ACL that the page lists for a command.

    :param operation: its name
    :param resource: a key of RESOURCES
    :param without: what happens without the ACL, as the page says it
    """

    operation: str
    resource: str
    without: str

    def bindings(self) -> list[AclBinding]:
        """Return it as brokers have it."""
        kind, names = RESOURCES[self.resource]
        operation = AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.operation).upper()]
        return [AclBinding(kind, name, OPERATOR, operation, Permission.ALLOW) for name in names]


def rights() -> dict[str, list[Right]]:
    """Return the rights of each command of the table."""
    listed: dict[str, list[Right]] = {}
    for commands, operation, resource, without in _ROW.findall(PAGE.read_text()):
        for command in re.findall("`([^`]+)`", commands):
            listed.setdefault(command, []).append(Right(operation, resource, without))
    return listed


class Broker:
    """A broker with an authorizer, what the commands are about, and the operator's rights.

    :param client: may do everything
    :param run: runs a command as the operator
    """

    def __init__(self, client: KafkaClient, run: Run) -> None:
        self.client = client
        self.run = run
        self.partitions = 2
        self.hung = 0

    def fill(self) -> None:
        """Create topics, and a group without members that is behind."""
        self.client.admin.create_topics([NewTopic(TOPIC, self.partitions, 1), NewTopic(TRANSACTIONS, 2, 1)])
        with self.client.producer() as producer:
            for number in range(10):
                producer.produce(TOPIC, b"%d" % number, partition=0)
        with self.client.consumer(TOPIC, group=GROUP) as consumer:
            record = consumer.one(timeout=30)
            assert record is not None
            consumer.commit(record)

    def grant(self, listed: list[Right]) -> None:
        """Give the operator these rights and no others."""
        admin, mine = self.client.admin, AclFilter(principal=OPERATOR)
        admin.delete_acls(mine)
        wanted = [binding for right in listed for binding in right.bindings()]
        if wanted:
            admin.create_acls(wanted)
        until(self.client.cluster.handler, lambda: set(admin.describe_acls(mine)) == set(wanted))

    def hang(self) -> str:
        """Begin a transaction that no coordinator knows; return its first offset."""
        part = TopicPartition(TRANSACTIONS, 0)
        offset = self.client.admin.list_offsets({part: OffsetSpec.latest()})[part].offset
        self.hung += 1
        hang(self.client, TRANSACTIONS, 777_000 + self.hung)
        return str(offset)


def error_of(result: Result) -> str:
    """Return the name of Kafka's error that a command has ended with, as the page has it; an empty text for none."""
    if result.exit_code == 0:
        return ""
    named = re.search(r"\[Kafka error \d+ (\w+)\]", result.stderr)
    assert named, result.output
    return f"`{named[1]}`"


def row_of(result: Result, name: str, value: str) -> dict[str, Any] | None:
    """Return the first row of a listing that has a value; None if it is left out."""
    return next((row for row in data(result) if row[name] == value), None)


def listed(*command: str, name: str, value: str, needs: str | None = None) -> Callable[[Broker], str]:
    """Return a task: list something, and look for a row.

    :param needs: what that row must have
    """

    def task(broker: Broker) -> str:
        row = row_of(broker.run(*command, "--json"), name, value)
        return "left out" if row is None or (needs is not None and row[needs] is None) else ""

    return task


def lag(broker: Broker) -> str:
    row = row_of(broker.run("lag", "--json"), "group", GROUP)
    if row is None:
        return "left out"
    assert row["lag"] == 9
    return "no seconds" if row["lag_s"] is None else ""


def changed(*command: str) -> Callable[[Broker], str]:
    """Return a task: run a command that ends well or with an error."""
    return lambda broker: error_of(broker.run(*command, status=None))


def find_hanging(broker: Broker) -> str:
    broker.hang()
    result = broker.run("transactions", "find-hanging", "--max-timeout", "0s", "--json", status=None)
    if result.exit_code == 0:
        numbers = {row["partition"]["partition"] for row in data(result)}
        return "lists healthy transactions" if 1 in numbers else "" if 0 in numbers else "left out"
    return error_of(result)


def abort(broker: Broker) -> str:
    offset = broker.hang()
    command = ("transactions", "abort", "--max-timeout", "0s")
    error = error_of(broker.run(*command, f"{TRANSACTIONS}:0", offset, "--yes", status=None))
    if error:
        return error
    healthy = broker.run(*command, f"{TRANSACTIONS}:1", "0", "--dry-run", status=None)
    if healthy.exit_code == 0:
        return "aborts healthy transactions"
    assert "does not hang" in healthy.stderr
    return ""


def add_partitions(broker: Broker) -> str:
    result = broker.run("topics", "add-partitions", TOPIC, str(broker.partitions + 1), "--yes", status=None)
    if result.exit_code == 0:
        broker.partitions += 1
    return error_of(result)


#: {command: what runs it and says what has come of it, as the page does; an empty text if all is well}
TASKS: dict[str, Callable[[Broker], str]] = {
    "groups list": listed("groups", "list", name="group", value=GROUP),
    "groups describe": changed("groups", "describe", LIVE_GROUP),
    "lag": lag,
    "groups list --lag": listed("groups", "list", "--lag", name="group", value=GROUP, needs="lag"),
    "topics list": listed("topics", "list", name="topic", value=TOPIC),
    "transactions find-hanging": find_hanging,
    "transactions abort": abort,
    "elect unclean": changed("elect", "unclean", f"{TOPIC}:0", "--yes"),
    "groups reset": changed("groups", "reset", GROUP, "--topic", TOPIC, "--by-duration", "1h", "--dry-run"),
    "topics add-partitions": add_partitions,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker that permits nothing by itself, with a live group, and an open transaction of a live producer."""
    config = {"allow.everyone.if.no.acl.found": "false", "transaction.partition.verification.enable": "false"}
    file: Path = tmp_path_factory.mktemp("operator") / "ops.properties"
    with KafkaCluster(KAFKA_VERSION, sasl=Sasl(), config=config) as kafka, KafkaClient(kafka.hosts) as client:
        assert kafka.sasl is not None
        file.write_text(
            f"bootstrap.servers={kafka.hosts_of('SASL_PLAINTEXT')}\n"
            "security.protocol=SASL_PLAINTEXT\n"
            "sasl.mechanism=SCRAM-SHA-512\n"
            "sasl.username=bob\n"
            f"sasl.password={kafka.sasl.users['bob']}\n"
        )
        broker = Broker(client, runner("--config", str(file)))
        broker.fill()
        with (
            client.consumer(TOPIC, group=LIVE_GROUP, protocol="consumer") as consumer,
            client.producer(transactional_id=OPEN, transaction_timeout_ms=600_000) as producer,
        ):
            assert consumer.one(timeout=30) is not None
            producer.begin_transaction()
            producer.produce(TRANSACTIONS, b"x", partition=1).get(timeout=30)
            yield broker
            producer.abort_transaction()


def test_the_table_and_the_tasks_are_of_the_same_commands() -> None:
    assert sorted(rights()) == sorted(TASKS)


@pytest.mark.parametrize("command", TASKS)
def test_exactly_these_acls(broker: Broker, command: str) -> None:
    """With them the command works; without one it does what the page says."""
    wanted = rights()[command]
    broker.grant(wanted)
    assert TASKS[command](broker) == "", command
    for right in wanted:
        # others include Describe: without it there are none for this resource
        implied = right.resource if right.operation == "Describe" else None
        broker.grant([other for other in wanted if other != right and other.resource != implied])
        outcome = TASKS[command](broker)
        assert outcome, f"{command} needs no {right}"
        assert right.without.startswith(outcome), f"{command} without {right}"
