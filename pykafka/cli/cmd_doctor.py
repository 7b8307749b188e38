"""The command doctor: problems between this machine and a cluster, and a round trip of one message."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from rich.text import Text

from pykafka.cli import show
from pykafka.cli.changes import create_topic
from pykafka.cli.diagnosis import FAILED, NOTE, OK, Examination, Finding
from pykafka.cli.exit_status import Status
from pykafka.cli.options import HOSTS, Session, json_option
from pykafka.copies import copies
from pykafka.exceptions import KafkaException
from pykafka.network.addresses import parse_hosts

if TYPE_CHECKING:
    from pykafka.client import KafkaClient


_KEY = b"kafka-tools doctor"

_STYLES = {OK: "green", NOTE: "yellow", FAILED: "bold red"}


def round_trip(client: KafkaClient, hosts: str, topic: str, create: bool, timeout_ms: int) -> Iterator[Finding]:
    """Write a message to a topic and read it again; yield the finding of each step.

    :param hosts: the addresses of the cluster
    :param create: create a missing topic (one partition, one replica); otherwise a missing topic is a failure
    :param timeout_ms: timeout of each step
    """
    handler = client.cluster.handler
    started = handler.now()
    step = "Topic"

    def finding(result: str, detail: str) -> Finding:
        return Finding(hosts, step, result, detail, round((handler.now() - started) * 1000))

    try:
        if client.topics.get(topic) is None:
            if not create:
                yield finding(FAILED, f"there is no topic {topic}; name an existing one, or create it with --create")
                return
            step = "Create"
            create_topic(client, topic, 1, 1, {}, {}, timeout_ms)
            yield finding(OK, f"created topic {topic}; delete_topic removes it")
        step, started = "Produce", handler.now()
        found = client.topics[topic]
        value = f"{_KEY.decode()} {uuid.uuid4()}".encode()
        with found.get_sync_producer(linger_ms=0, ack_timeout_ms=timeout_ms) as producer:
            sent = producer.produce(value, partition_key=_KEY)
        yield finding(OK, f"{topic}, partition {sent.partition_id}, offset {sent.offset}")
        step, started = "Fetch", handler.now()
        partition = found.partitions[sent.partition_id]
        consumer = found.get_simple_consumer(partitions=[partition], consumer_timeout_ms=timeout_ms, auto_start=False)
        consumer.seek(partition, sent.offset)
        with consumer:
            message = consumer.consume()
        if message is None or message.value != value:
            yield finding(FAILED, "the message did not come back; the partition's leader may have changed: try again")
            return
        yield finding(OK, f"the message came back with offset {message.offset}")
    except KafkaException as error:
        yield finding(FAILED, str(error))


@click.command("doctor")
@click.argument("host", type=HOSTS, required=False)
@click.option("--topic", help="Also write one message to this topic and read it again.")
@click.option("--create", is_flag=True, help="Create that topic, with one partition, if it is missing.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, host: str | None, topic: str | None, create: bool, as_json: bool) -> None:
    """Diagnose connectivity to a cluster.

    Several copies of PyKafka on the path are noted first, as they hide each other.
    HOST is host:port of some brokers; by default those of --broker, or those in --zookeeper. Each address goes through DNS,
    TCP, TLS (with --tls), ApiVersions and Metadata, then so does every address that the brokers advertise. With
    --topic, one message makes a round trip. Exit status: 0 without problems, 3 if no broker answers, else 1.
    """
    session: Session = ctx.obj
    if create and not topic:
        raise click.UsageError("--create needs --topic: the topic to create")
    hosts = host or session.seeds()
    examination = Examination(session.socket_timeout_ms, session.settings)
    out = show.console()
    findings = []
    for finding in _all(session, examination, hosts, topic, create):
        findings.append(finding)
        if not as_json:
            out.print(_line(finding), soft_wrap=True)
    well = all(finding.result != FAILED for finding in findings)
    if as_json:
        show.print_json({"well": well, "reached": examination.reached, "findings": findings})
    if not examination.reached:
        ctx.exit(Status.UNREACHABLE)
    if not well:
        ctx.exit(Status.FAILED)


def _all(session: Session, examination: Examination, hosts: str, topic: str | None, create: bool) -> Iterator[Finding]:
    yield from _copies(hosts)
    well = True
    for finding in examination.run(parse_hosts(hosts)):
        well = well and finding.result != FAILED
        yield finding
    if well and examination.reached:
        yield from _internal(session, hosts)
    if topic and examination.reached:
        with session.client(hosts) as client:
            yield from round_trip(client, hosts, topic, create, session.socket_timeout_ms)


def _copies(hosts: str) -> Iterator[Finding]:
    """Yield each copy of the package if there are several: PyKafka 2 has the same name."""
    found = copies()
    if len(found) > 1:
        for copy in found:
            yield Finding(hosts, "Package", NOTE, f"{copy}; docs/installing.md says how to keep one")


def _internal(session: Session, hosts: str) -> Iterator[Finding]:
    """Yield what internal topics lack: groups, transactions or share groups cannot work, and the rest can."""
    try:
        with session.client(hosts) as client:
            for problem in client.cluster.internal_topics.problems():
                yield Finding(hosts, "Internal", NOTE, problem)
    except KafkaException as error:
        yield Finding(hosts, "Internal", NOTE, f"the internal topics could not be looked at: {error}")


def _line(finding: Finding) -> Text:
    line = Text(f"{finding.host}  ")
    line.append(f"{finding.result:<6}", style=_STYLES[finding.result])
    return line.append(f"  {finding.step:<11}  {finding.detail} ({finding.ms} ms)")


COMMANDS = (doctor,)
