"""The older commands that change the cluster: reset_offsets, create_topic, delete_topic."""

from __future__ import annotations

import json
from typing import Any

import click
from click.core import ParameterSource

from pykafka.cli import show
from pykafka.cli.data import read_json
from pykafka.cli.offset_spec import OffsetSpec
from pykafka.cli.options import (
    OFFSET,
    GroupType,
    ParsedType,
    Session,
    TopicType,
    json_option,
    session_command,
    timeout_option,
)


def _json_object(text: str) -> dict[str, Any]:
    """Return a JSON object."""
    try:
        data = read_json(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{text!r} is not a JSON object: write it in braces")
    return data


def _settings(text: str) -> dict[str, Any]:
    """Return settings: a JSON object, or one as NAME=VALUE."""
    name, sign, setting = text.partition("=")
    if sign and name.strip() and not text.lstrip().startswith(("{", "[", '"')):
        return {name.strip(): setting}
    return _json_object(text)


JSON_OBJECT, SETTINGS = ParsedType("json", _json_object), ParsedType("settings", _settings)


@click.command("reset_offsets")
@click.argument("topic", type=TopicType())
@click.argument("consumer_group", type=GroupType())
@click.argument("offset", type=OFFSET)
@click.option("--dry-run", is_flag=True, help="Print what would be committed, and commit nothing.")
@session_command
def reset_offsets(
    session: Session, topic: str, consumer_group: str, offset: OffsetSpec, dry_run: bool, as_json: bool
) -> None:
    """Reset a group's committed offsets.

    The group continues at OFFSET: EARLIEST, LATEST, a time (YYYY-MM-DDTHH:MM:SS, UTC; or @ and ms), or an offset. The
    group must have no members: they would keep their own positions. `groups reset` is its name today.
    """
    from pykafka.cli import changes

    with session.client() as client:
        found = changes.reset_offsets(
            client,
            topic,
            consumer_group,
            offset,
            dry_run,
            session.zookeeper_groups(),
            lambda text: click.echo(f"kafka-tools: {text}", err=True),
        )
    if as_json:
        show.print_json(found)
        return
    out = show.console()
    out.print(show.table(("Partition#", "Before#", "After#"), found))
    if dry_run:
        out.print("Nothing was committed.")


@click.command("create_topic")
@click.argument("topic")
@timeout_option
@click.option("-p", "--num_partitions", type=click.IntRange(min=-1), default=1, show_default=True, help="-1: unset.")
@click.option(
    "-r", "--replication_factor", type=click.IntRange(min=-1), default=1, show_default=True, help="-1: unset."
)
@click.option(
    "-a",
    "--replica_assignment",
    type=JSON_OBJECT,
    help='Instead of both: {"partition id": [broker ids], ...}.',
)
@click.option(
    "-c",
    "--config_entries",
    type=SETTINGS,
    multiple=True,
    help='A setting of the topic, NAME=VALUE, or several as JSON: {"name": "value", ...}.',
)
@json_option
@click.pass_context
def create_topic(
    ctx: click.Context,
    topic: str,
    timeout: int,
    num_partitions: int,
    replication_factor: int,
    replica_assignment: dict[str, Any] | None,
    config_entries: tuple[dict[str, Any], ...],
    as_json: bool,
) -> None:
    """Create a topic. Brokers before Kafka 0.10.1 require --zookeeper; for others `topics create` is its name today."""
    session: Session = ctx.obj
    assignment = {} if replica_assignment is None else assignment_of(replica_assignment, "--replica_assignment")
    if replica_assignment is not None:
        for name, value in (("num_partitions", num_partitions), ("replication_factor", replication_factor)):
            if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT and value != -1:
                raise click.UsageError(f"--replica_assignment includes --{name}: leave --{name} out")
        num_partitions = replication_factor = -1
    for option, value in (("--num_partitions", num_partitions), ("--replication_factor", replication_factor)):
        if value == 0:
            raise click.UsageError(f"{option} is 0; a topic has at least 1, and -1 leaves it to the brokers")
    settings = {name: setting_text(value) for given in config_entries for name, value in given.items()}
    from pykafka.cli import changes

    with session.client() as client:
        zookeeper = session.zookeeper_topics(client)
        made = changes.create_topic(
            client, topic, num_partitions, replication_factor, assignment, settings, timeout, zookeeper
        )
    if as_json:
        show.print_json(made)
    else:
        click.echo(f"Created topic {made.topic} with {made.partitions} partitions, {made.replicas} replicas each.")


def assignment_of(given: dict[str, Any], option: str) -> dict[int, list[int]]:
    """Return {partition: broker ids} of JSON.

    :param option: where it was given, for the error
    """
    for id_, brokers in given.items():
        right = isinstance(brokers, list) and brokers and all(type(broker) is int for broker in brokers)
        if not id_.isdecimal() or not right:
            raise click.BadParameter(
                f'{json.dumps({id_: brokers})} does not give a partition its brokers: write {{"0": [1, 2]}}',
                param_hint=option,
            )
    return {int(id_): brokers for id_, brokers in given.items()}


def setting_text(value: Any) -> str:
    """Return a setting as text for brokers, with true and false as in JSON."""
    return value if isinstance(value, str) else json.dumps(value)


@click.command("delete_topic")
@click.argument("topic", type=TopicType())
@timeout_option
@click.pass_obj
def delete_topic(session: Session, topic: str, timeout: int) -> None:
    """Delete a topic and all its messages. Brokers before Kafka 0.10.1 require --zookeeper; others have `topics delete`."""
    from pykafka.cli import changes

    with session.client() as client:
        changes.delete_topic(client, topic, timeout, session.zookeeper_topics(client))
    click.echo(f"Deleted topic {topic}.")


COMMANDS = (reset_offsets, create_topic, delete_topic)
