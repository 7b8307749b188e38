"""The noun topics: list, describe, create, delete, alter, add-partitions, delete-records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pykafka.admin import ConfigResource, NewPartitions, NewTopic
from pykafka.cli import listing, show
from pykafka.cli.cmd_change import JSON_OBJECT, SETTINGS, assignment_of, setting_text
from pykafka.cli.cmd_configs import alter_options, change_configs, changes_of, plain_value
from pykafka.cli.cmd_read import SUMMARY, print_description, summary_cells
from pykafka.cli.listing import partition_ids
from pykafka.cli.offset_spec import OffsetSpec, limits, resolve
from pykafka.cli.options import OFFSET, Session, TopicType, session_command, timeout_option
from pykafka.cli.verbs import Noun, ask, change_command, counted, data_of, dry_run_option, fail, print_rows, report
from pykafka.cli.watching import listing_command
from pykafka.exceptions import KafkaException, UnknownTopicOrPartition

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from pykafka.client import KafkaClient

topics = Noun("topics", help="Topics, their partitions and messages.")
_names = click.argument("names", metavar="TOPIC...", type=TopicType(), nargs=-1, required=True)


class Deletion(NamedTuple):
    """The effect of a deletion in a partition; `error` says why it does nothing."""

    partition: int
    earliest: int
    latest: int
    after: int
    deleted: int
    error: str | None = None


def plan_deletion(client: KafkaClient, topic: str, spec: OffsetSpec, partitions: Sequence[int]) -> list[Deletion]:
    """Return what the deletion of all messages before a place would do.

    :param partitions: these alone; none stands for all
    :raises UnknownTopicOrPartition: there is no such topic or partition
    :raises OffsetOutOfRangeError: a partition does not have the given offset
    """
    there = partition_ids(client, topic)
    for id_ in partitions:
        if id_ not in there:
            raise UnknownTopicOrPartition(f"the topic has the partitions 0 to {there[-1]}", topic=topic, partition=id_)
    ids = sorted(set(partitions)) or there
    bounds = limits(client, topic, ids)
    after = resolve(client, topic, spec, ids)
    return [Deletion(id_, *bounds[id_], after[id_], max(after[id_] - bounds[id_][0], 0)) for id_ in ids]


def delete_before(
    client: KafkaClient, topic: str, plan: Sequence[Deletion]
) -> tuple[list[Deletion], list[KafkaException]]:
    """Carry out a plan; return what was done, and the errors."""
    wanted = {(topic, one.partition): one.after for one in plan if one.deleted}
    if not wanted:
        return list(plan), []
    results = client.admin.delete_records(wanted, raise_errors=False)
    errors = {item.partition: error for item, error in results.errors.items()}
    starts = {item.partition: start for item, start in results.items()}
    done = [
        one._replace(after=one.earliest, deleted=0, error=str(errors[one.partition]))
        if one.partition in errors
        else one._replace(after=starts.get(one.partition, one.after))
        for one in plan
    ]
    return done, list(errors.values())


@topics.command("list")
@click.option("--internal", is_flag=True, help="Also those whose names begin with '__'.")
@click.option("--unhealthy", is_flag=True, help="Only those without a leader, or with replicas out of sync, somewhere.")
@listing_command
def list_(session: Session, internal: bool, unhealthy: bool, as_json: bool) -> None:
    """List the topics, and what is wrong with them; with --watch also the records that are produced each second."""
    ends: dict[str, dict[Hashable, float]] = {}
    with session.client() as client:
        if show.repetition() is not None:
            client.update_cluster()
        found = listing.list_topics(client, internal)
        if unhealthy:
            found = [one for one in found if one.without_leader or one.under_replicated]
        if show.repetition() is not None:
            ends = listing.ends_of(client, [one.topic for one in found])
    rates = show.Rates(lambda one: one.topic, lambda one: {"produced": ends.get(one.topic)})
    print_rows(found, as_json, SUMMARY, summary_cells, rates=rates)


@topics.command("describe")
@_names
@listing_command
def describe(session: Session, names: tuple[str, ...], as_json: bool) -> None:
    """Print partitions, replicas, offsets and settings of topics."""
    with session.client() as client:
        results = listing.describe_topics(client, names)
    found = list(results.values())
    if as_json:
        show.print_json(found)
    else:
        for one in found:
            print_description(one)
    fail(list(results.errors.values()))


@topics.command("create")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="How many.  [default: as the brokers have it]")
@click.option(
    "-r", "--replicas", type=click.IntRange(min=1), help="Of each partition.  [default: as the brokers have it]"
)
@click.option("-a", "--assignment", type=JSON_OBJECT, help='Instead of both: {"partition id": [broker ids], ...}.')
@click.option(
    "-c",
    "--config",
    "settings",
    type=SETTINGS,
    multiple=True,
    help="NAME=VALUE, as retention.ms=7d or segment.bytes=1GiB; may be repeated.",
)
@timeout_option
@dry_run_option
@session_command
def create(
    session: Session,
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    assignment: dict[str, Any] | None,
    settings: tuple[dict[str, Any], ...],
    timeout: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Create topics. Since Kafka 0.10.1; create_topic --zookeeper creates them on older brokers."""
    if assignment is not None and (partitions is not None or replicas is not None):
        raise click.UsageError("--assignment includes --partitions and --replicas: leave them out")
    given = {name: plain_value(name, setting_text(value)) for setting in settings for name, value in setting.items()}
    assigned = None if assignment is None else assignment_of(assignment, "--assignment")
    wanted = [NewTopic(name, partitions, replicas, given, assigned) for name in dict.fromkeys(names)]
    with session.client() as client:
        results = client.admin.create_topics(wanted, validate_only=dry_run, timeout_ms=timeout, raise_errors=False)
    done = "Would create" if dry_run else "Created"

    def sentence(name: str, made: Any) -> str:
        if made.partitions is None:  # before Kafka 2.4
            return f"{done} topic {name}."
        return f"{done} topic {name} with {counted(made.partitions, 'partition')}, {counted(made.replication, 'replica')} each."

    report(results, as_json, "topic", sentence, _created, dry_run)


def _created(_name: str, made: Any) -> dict[str, Any]:
    found = data_of(made)
    return {name: found[name] for name in ("topic_id", "partitions", "replication")}


@topics.command("delete")
@_names
@timeout_option
@change_command
def delete(session: Session, names: tuple[str, ...], timeout: int, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete topics with all their messages. Since Kafka 0.10.1; delete_topic --zookeeper deletes them on older ones."""
    ask(f"Delete {', '.join(names)} with all messages?", yes, dry_run)
    with session.client() as client:
        if dry_run:
            found = client.admin.describe_topics(dict.fromkeys(names), raise_errors=False)
            count = {name: len(one.partitions) for name, one in found.items()}
            report(
                found,
                as_json,
                "topic",
                lambda name, _: f"Would delete topic {name} with {count[name]} partitions.",
                lambda name, _: {"partitions": count[name]},
                dry_run,
            )
            return
        results = client.admin.delete_topics(dict.fromkeys(names), timeout_ms=timeout, raise_errors=False)
    report(results, as_json, "topic", lambda name, _: f"Deleted topic {name}.")


@topics.command("alter")
@click.argument("topic", type=TopicType())
@alter_options
@dry_run_option
@session_command
def alter(
    session: Session,
    topic: str,
    settings: tuple[tuple[str, str], ...],
    delete: tuple[str, ...],
    append: tuple[tuple[str, str], ...],
    subtract: tuple[tuple[str, str], ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Change settings of a topic, and leave the others as they are. Since Kafka 2.3."""
    changes = changes_of(settings, delete, append, subtract)
    with session.client() as client:
        change_configs(client, ConfigResource.topic(topic), changes, dry_run, as_json)


@topics.command("add-partitions")
@click.argument("topic", type=TopicType())
@click.argument("total", type=click.IntRange(min=1))
@click.option(
    "-a",
    "--assignment",
    type=JSON_OBJECT,
    help='Where the new ones go: {"partition id": [broker ids], ...}; by default the cluster chooses.',
)
@timeout_option
@change_command
def add_partitions(
    session: Session,
    topic: str,
    total: int,
    assignment: dict[str, Any] | None,
    timeout: int,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Give a topic more partitions, TOTAL in all. Keys go to other partitions then. Since Kafka 1.0."""
    assigned = None if assignment is None else assignment_of(assignment, "--assignment")
    ask(f"Give {topic} {total} partitions? Keys go to other partitions then, and no way leads back.", yes, dry_run)
    with session.client() as client:
        before = len(client.admin.describe_topics(topic)[topic].partitions)
        if assigned is not None and sorted(assigned) != list(range(before, total)):
            raise click.UsageError(f"--assignment must name the new partitions, {before} to {total - 1}")
        brokers = None if assigned is None else [assigned[id_] for id_ in sorted(assigned)]
        results = client.admin.create_partitions(
            NewPartitions(topic, total, brokers), validate_only=dry_run, timeout_ms=timeout, raise_errors=False
        )
    have = "would have" if dry_run else "has"
    report(
        results,
        as_json,
        "topic",
        lambda name, _: f"Topic {name} {have} {total} partitions, {total - before} more.",
        lambda *_: {"before": before, "partitions": total},
        dry_run,
    )


@topics.command("delete-records")
@click.argument("topic", type=TopicType())
@click.argument("where", type=OFFSET)
@click.option("-p", "--partition", "partitions", type=int, multiple=True, help="Only this one; may be repeated.")
@change_command
def delete_records(
    session: Session,
    topic: str,
    where: OffsetSpec,
    partitions: tuple[int, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete the messages before WHERE: LATEST for all, a time (YYYY-MM-DDTHH:MM:SS, UTC), an offset. Since Kafka 0.11."""
    with session.client() as client:
        plan = plan_deletion(client, topic, where, partitions)
        count = sum(one.deleted for one in plan)
        ask(f"Delete {count:,} messages of {topic}?", yes, dry_run)
        done, errors = (plan, []) if dry_run else delete_before(client, topic, plan)

    def cells(one: Deletion) -> tuple[object, ...]:
        return (one.partition, one.earliest, one.latest, one.after, one.deleted)

    print_rows(done, as_json, ("Partition#", "Earliest#", "Latest#", "New earliest#", "Deleted#"), cells, dry_run)
    fail(errors)


COMMANDS = (topics,)
