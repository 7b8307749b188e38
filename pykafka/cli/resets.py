"""The reset of a group's offsets: the plan, and its execution. Offsets that are out of range are clipped. Prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pykafka.admin import OffsetChange, OffsetSpec, Results
from pykafka.exceptions import OffsetOutOfRangeError

if TYPE_CHECKING:
    from pykafka.client import KafkaClient
    from pykafka.common import TopicPartition

Changes = Results["TopicPartition", OffsetChange]


class Reset(NamedTuple):
    """The reset of a group.

    :param to: a place for all partitions, or one for each
    :param partitions: with one place: in these; none stands for those with a committed offset
    """

    group: str
    to: OffsetSpec | Mapping[TopicPartition, OffsetSpec]
    partitions: Sequence[TopicPartition] = ()

    def run(self, client: KafkaClient, warn: Callable[[str], object], dry_run: bool) -> Changes:
        """Commit the offsets, and return them with those before.

        :param warn: gets a sentence for each offset that is out of range, and so becomes the nearest one
        :param dry_run: commit nothing
        """
        found = client.admin.reset_group_offsets(
            self.group, self.to, partitions=self.partitions, dry_run=dry_run, raise_errors=False
        )
        wanted = {
            item: self._offset(item) for item, error in found.errors.items() if isinstance(error, OffsetOutOfRangeError)
        }
        if not wanted:
            return found
        clipped = _nearest(client, wanted, warn)
        again = client.admin.reset_group_offsets(self.group, clipped, dry_run=dry_run, raise_errors=False)
        return _together(found, again)

    def carry_out(self, client: KafkaClient, plan: Changes, warn: Callable[[str], object]) -> Changes:
        """Commit what a plan shows, and return it with the errors of the plan. Parameters as of `run`."""
        planned = {item: OffsetSpec.offset(change.after) for item, change in plan.items()}
        return _together(plan, Reset(self.group, planned).run(client, warn, dry_run=False))

    def _offset(self, item: TopicPartition) -> int:
        return (self.to if isinstance(self.to, OffsetSpec) else self.to[item]).value


def _together(earlier: Changes, later: Changes) -> Changes:
    outcomes = {one.item: one.value or one.error for one in (*earlier.outcomes, *later.outcomes)}
    return Results({item: outcome for item, outcome in outcomes.items() if outcome is not None})


def _nearest(
    client: KafkaClient, wanted: Mapping[TopicPartition, int], warn: Callable[[str], object]
) -> dict[TopicPartition, OffsetSpec]:
    first = client.admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.earliest()), raise_errors=False)
    last = client.admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest()), raise_errors=False)
    found = {}
    for item, offset in wanted.items():
        if item not in first or item not in last:
            continue  # its error stands
        low, high = first[item].offset or 0, last[item].offset or 0
        place = min(max(offset, low), high)
        found[item] = OffsetSpec.offset(place)
        warn(f"{item} has the offsets {low} to {high}: {place} replaces {offset}")
    return found
