"""The deletion of messages: from where each partition still has messages, before and after. Prints nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykafka.cli.listing import partition_ids
from pykafka.cli.offset_spec import Moment, limits, resolve
from pykafka.exceptions import KafkaException, UnknownTopicOrPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykafka.client import KafkaClient


class Deletion(NamedTuple):
    """The effect of a deletion in a partition; `error` says why it does nothing."""

    partition: int
    earliest: int
    latest: int
    after: int
    deleted: int
    error: str | None = None


def plan_deletion(client: KafkaClient, topic: str, moment: Moment, partitions: Sequence[int]) -> list[Deletion]:
    """Return what the deletion of all messages before a moment would do.

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
    after = resolve(client, topic, moment, ids)
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
