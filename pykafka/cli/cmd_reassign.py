"""The nouns reassign (partitions to other brokers) and elect (leaders)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

import click

from pykafka.admin import ElectionType, Results
from pykafka.cli import show
from pykafka.cli.data import read_json
from pykafka.cli.options import ParsedType, Session, TopicType, session_command
from pykafka.cli.verbs import Noun, ask, change_command, counted, data_of, dry_run_option, fail, partitions_of, report
from pykafka.cli.watching import listing_command
from pykafka.common import TopicPartition
from pykafka.exceptions import InvalidReplicaAssignment, KafkaException, UnknownTopicOrPartition, UnsupportedVersion

if TYPE_CHECKING:
    from pykafka.client import KafkaClient

Plan = dict[TopicPartition, list[int]]

reassign = Noun("reassign", help="Reassignments of partitions to other brokers. Since Kafka 2.4.")
elect = Noun("elect", help="Elections of leaders. Since Kafka 2.2.")
_texts = click.argument("texts", metavar="[TOPIC[:PARTITION,...]]...", type=TopicType(), nargs=-1)
_COLUMNS = ("Topic", "Partition#", "Replicas", "New replicas")


def parse_plan(text: str) -> Plan:
    """Return the plan of {"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}, or of such a list alone.

    :raises ValueError: the text has another form, or names a partition twice
    """
    data: Any = read_json(text)
    entries = data.get("partitions") if isinstance(data, dict) else data
    found: Plan = {}
    for number, entry in enumerate(entries if isinstance(entries, list) else [None], 1):
        row: dict[str, Any] = entry if isinstance(entry, dict) else {}
        topic: Any = row.get("topic")
        partition: Any = row.get("partition")
        replicas: Any = row.get("replicas")
        right = isinstance(topic, str) and type(partition) is int and isinstance(replicas, list) and replicas
        if not right or not all(type(replica) is int for replica in replicas):
            raise ValueError(f'entry {number} is not {{"topic": "t", "partition": 0, "replicas": [1, 2]}}')
        key = TopicPartition(topic, partition)
        if key in found:
            raise ValueError(f"entry {number}: partition {partition} of {topic} is named twice")
        found[key] = replicas
    if not found:
        raise ValueError("it names no partition")
    return found


def plan_text(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Return a plan as JSON that `parse_plan` and Kafka's own tools read."""
    rows = [{"topic": item.topic, "partition": item.partition, "replicas": list(one)} for item, one in plan.items()]
    return json.dumps({"version": 1, "partitions": rows}, indent=2)


def spread(
    present: Mapping[TopicPartition, Sequence[int]],
    brokers: Sequence[int],
    replicas: int | None = None,
    racks: Mapping[int, str | None] | None = None,
) -> Plan:
    """Return a plan that spreads partitions over brokers evenly, with as few moves as possible.

    :param present: the replicas of each partition, the preferred leader first
    :param brokers: those that are to have them
    :param replicas: how many of each partition; None keeps the number
    :param racks: of brokers; the replicas of a partition go to different ones if there are enough
    :raises ValueError: there are fewer brokers than replicas
    """
    racks = racks or {}
    plan: Plan = {}
    for item, now in present.items():
        count = replicas or len(now)
        if count > len(brokers):
            raise ValueError(f"{count} replicas of {item} need as many brokers; there are {len(brokers)}")
        plan[item] = [one for one in now if one in brokers][:count]
    load = {broker: sum(broker in its for its in plan.values()) for broker in brokers}
    for item, its in plan.items():
        while len(its) < (replicas or len(present[item])):
            free = [one for one in brokers if one not in its]
            best = min(free, key=lambda one: (_shares_rack(one, its, racks), load[one], one))
            its.append(best)
            load[best] += 1
    while _moved_one(plan, load, racks):
        pass
    leads = dict.fromkeys(brokers, 0)
    for its in plan.values():
        # The one that leads the fewest, and of those the one that stands first.
        first = min(its, key=lambda one: leads[one])
        leads[first] += 1
        its.insert(0, its.pop(its.index(first)))
    while _led_by_another(plan, leads):
        pass
    return plan


def _led_by_another(plan: Plan, leads: dict[int, int]) -> bool:
    """Give one partition to a broker that leads fewer; return False if none has too many."""
    for its in plan.values():
        best = min(its, key=lambda one: leads[one])
        if leads[its[0]] - leads[best] > 1:
            leads[its[0]] -= 1
            leads[best] += 1
            its.insert(0, its.pop(its.index(best)))
            return True
    return False


def _shares_rack(broker: int, its: Sequence[int], racks: Mapping[int, str | None]) -> bool:
    """Return whether one of these replicas is in the broker's rack."""
    rack = racks.get(broker)
    return rack is not None and any(racks.get(one) == rack for one in its)


def _moved_one(plan: Plan, load: dict[int, int], racks: Mapping[int, str | None]) -> bool:
    """Move one replica from a broker with many to one with few; return False if none has too many."""
    for full in sorted(load, key=lambda one: -load[one]):
        for empty in sorted(load, key=lambda one: load[one]):
            if load[full] - load[empty] <= 1:
                break
            for its in plan.values():
                others = [one for one in its if one != full]
                if (
                    full in its
                    and empty not in its
                    and _shares_rack(empty, others, racks) <= _shares_rack(full, others, racks)
                ):
                    its[its.index(full)] = empty
                    load[full] -= 1
                    load[empty] += 1
                    return True
    return False


def _broker_ids(text: str) -> list[int]:
    """Return broker ids, which stand between commas."""
    if not all(one.strip().isdecimal() for one in text.split(",")):
        raise ValueError(f"{text!r} names no brokers by id; write 1,2,3")
    ids = [int(one) for one in text.split(",")]
    if len(set(ids)) < len(ids):
        raise ValueError(f"{text!r} names a broker twice")
    return ids


@reassign.command("list")
@_texts
@listing_command
def list_(session: Session, texts: tuple[str, ...], as_json: bool) -> None:
    """List the reassignments that are under way."""
    with session.client() as client:
        found = client.admin.list_partition_reassignments(partitions_of(client, texts) if texts else None)
    if as_json:
        show.print_json([{**data_of(item), **data_of(one)} for item, one in found.items()])
        return
    rows = [(*item, one.replicas, one.adding, one.removing) for item, one in found.items()]
    show.console().print(show.table(("Topic", "Partition#", "Replicas", "Adding", "Removing"), rows))


@reassign.command("plan")
@click.argument("texts", metavar="TOPIC[:PARTITION,...]...", type=TopicType(), nargs=-1, required=True)
@click.option(
    "--brokers", type=ParsedType("id,id", _broker_ids), help="Those that are to have the replicas.  [default: all]"
)
@click.option("--replicas", type=click.IntRange(min=1), help="Of each partition.  [default: as many as now]")
@click.pass_obj
def plan(session: Session, texts: tuple[str, ...], brokers: list[int] | None, replicas: int | None) -> None:
    """Print a plan as JSON, for `reassign start`: even, with few moves, and replicas in different racks. Changes nothing."""
    with session.client() as client:
        items = partitions_of(client, texts)
        known = client.admin.describe_cluster().brokers
        racks = {one.id: one.rack for one in known}
        unknown = sorted(set(brokers or ()) - set(racks))
        if unknown:
            raise click.UsageError(
                f"there is no broker {unknown[0]}; the cluster has {', '.join(map(str, sorted(racks)))}"
            )
        try:
            found = spread(_present(client, items), brokers or sorted(racks), replicas, racks)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    click.echo(plan_text(found))


def _present(client: KafkaClient, items: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of partitions, without those still being added; partitions that do not exist are missing."""
    described = client.admin.describe_topics(dict.fromkeys(item.topic for item in items), raise_errors=False)
    there = {
        TopicPartition(name, part.partition): part.replicas
        for name, topic in described.items()
        for part in topic.partitions
    }
    found = {item: there[item] for item in items if item in there}
    with suppress(UnsupportedVersion):  # brokers before 2.4 take plans through ZooKeeper alone
        for item, one in client.admin.list_partition_reassignments(list(found)).items():
            found[item] = tuple(broker for broker in one.replicas if broker not in one.adding)
    return found


def _registered(client: KafkaClient) -> set[int]:
    """Return the brokers that a plan may name: also those that are down, if the cluster lists them (since Kafka 4.0)."""
    try:
        brokers = client.admin.describe_cluster(fenced_brokers=True).brokers
    except UnsupportedVersion:
        brokers = client.admin.describe_cluster().brokers
    return {broker.id for broker in brokers}


def plan_errors(
    client: KafkaClient, wanted: Plan, before: Mapping[TopicPartition, Sequence[int]]
) -> Results[TopicPartition, None]:
    """Return the errors that a plan would meet: what it names and the cluster does not have."""
    known = _registered(client)
    found: dict[TopicPartition, KafkaException | None] = {}
    for item, replicas in wanted.items():
        unknown = sorted(set(replicas) - known)
        found[item] = None
        if item not in before:
            found[item] = UnknownTopicOrPartition(topic=item.topic, partition=item.partition)
        elif unknown or len(set(replicas)) < len(replicas):
            why = f"the cluster has no broker {unknown[0]}" if unknown else "the plan names a broker twice"
            found[item] = InvalidReplicaAssignment(why, topic=item.topic, partition=item.partition)
    return Results(found)


@reassign.command("start")
@click.argument("file", type=click.File("r"))
@change_command
def start(session: Session, file: TextIO, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Begin the reassignments of a plan: FILE is JSON of `reassign plan` or Kafka's own tool; - is the standard input.

    The table has the present replicas; with --json it is a plan that leads back.
    """
    try:
        wanted = parse_plan(file.read())
    except ValueError as error:
        raise click.UsageError(f"{file.name}: {error}") from None
    ask(f"Begin to move {counted(len(wanted), 'partition')}?", yes, dry_run)
    with session.client() as client:
        before = _present(client, list(wanted))
        results: Results[TopicPartition, None] = (
            plan_errors(client, wanted, before)
            if dry_run
            else client.admin.alter_partition_reassignments(dict(wanted.items()), raise_errors=False)
        )
    _print_reassignments(wanted, before, as_json, dry_run, list(results))
    fail(list(results.errors.values()))


def _print_reassignments(
    wanted: Plan,
    before: Mapping[TopicPartition, Sequence[int]],
    as_json: bool,
    dry_run: bool,
    done: list[TopicPartition],
) -> None:
    if as_json:
        click.echo(plan_text({item: before.get(item, ()) for item in done}))
        return
    out = show.console()
    out.print(show.table(_COLUMNS, [(*item, before.get(item, ()), wanted[item]) for item in done]))
    if dry_run:
        out.print("Nothing was changed.")
    elif done:
        out.print("`kafka-tools reassign list` shows what is under way.")


def _check_which(texts: tuple[str, ...], everything: bool) -> None:
    if bool(texts) == everything:
        raise click.UsageError("say which: TOPIC, TOPIC:PARTITION, or --all")


@reassign.command("cancel")
@_texts
@click.option("--all", "everything", is_flag=True, help="All reassignments that are under way.")
@change_command
def cancel(session: Session, texts: tuple[str, ...], everything: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Cancel reassignments that are under way: the replicas stay where they were."""
    _check_which(texts, everything)
    with session.client() as client:
        under_way = client.admin.list_partition_reassignments(partitions_of(client, texts) if texts else None)
        if under_way:
            ask(f"Cancel the reassignment of {counted(len(under_way), 'partition')}?", yes, dry_run)
        results: Results[TopicPartition, None] = (
            Results(dict.fromkeys(under_way))
            if dry_run or not under_way
            else client.admin.alter_partition_reassignments(dict.fromkeys(under_way), raise_errors=False)
        )
    done = "Would cancel" if dry_run else "Cancelled"
    report(results, as_json, "partition", lambda item, _: f"{done} the reassignment of {item}.", dry_run=dry_run)
    if not under_way and not as_json:
        click.echo("No reassignment is under way.")


def _elect(
    session: Session, kind: ElectionType, texts: tuple[str, ...], everything: bool, dry_run: bool, as_json: bool
) -> None:
    with session.client() as client:
        topics = [topic.name for topic in client.admin.list_topics(internal=True)] if everything else list(texts)
        items = partitions_of(client, topics)
        if dry_run:
            described = client.admin.describe_topics(dict.fromkeys(item.topic for item in items))
            results: Results[TopicPartition, bool] = Results(
                {
                    item: (part.leader is None if kind == ElectionType.UNCLEAN else part.leader != part.replicas[0])
                    for item in items
                    for part in described[item.topic].partitions
                    if part.partition == item.partition
                }
            )
        else:
            results = client.admin.elect_leaders(items, kind, raise_errors=False)
    if as_json:
        report(results, True, "partition", lambda *_: "", lambda _, elected: {"elected": elected})
        return
    out = show.console()
    changed = [item for item, elected in results.items() if elected]
    for item in changed:
        out.print(f"{'Would elect' if dry_run else 'Elected'} the leader of {item}.")
    out.print(f"{counted(len(results) - len(changed), 'partition')} needed no election.")
    if dry_run:
        out.print("Nothing was changed.")
    fail(list(results.errors.values()))


@elect.command("preferred")
@_texts
@click.option("--all", "everything", is_flag=True, help="All partitions of the cluster.")
@dry_run_option
@session_command
def preferred(session: Session, texts: tuple[str, ...], everything: bool, dry_run: bool, as_json: bool) -> None:
    """Make the first replica of each partition its leader, if it is up and in sync. Nothing is lost."""
    _check_which(texts, everything)
    _elect(session, ElectionType.PREFERRED, texts, everything, dry_run, as_json)


@elect.command("unclean")
@_texts
@click.option("--all", "everything", is_flag=True, help="All partitions of the cluster.")
@change_command
def unclean(
    session: Session, texts: tuple[str, ...], everything: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Elect any replica of partitions without a leader, though messages that it lacks are lost for ever. Since Kafka 2.4."""
    _check_which(texts, everything)
    ask("Elect leaders that may lack messages? Those messages are lost for ever.", yes, dry_run)
    _elect(session, ElectionType.UNCLEAN, texts, everything, dry_run, as_json)


COMMANDS = (reassign, elect)
