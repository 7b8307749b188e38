"""The command lag: how far groups are behind, worst first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from pykafka.cli import show
from pykafka.cli.exit_status import Status
from pykafka.cli.lag import TYPES, GroupLag, Lags, lags_of, listed_groups, matching
from pykafka.cli.options import GroupType, Session, TopicType
from pykafka.cli.verbs import counted, end_with, fail, print_rows
from pykafka.cli.watching import listing_command
from pykafka.exceptions import GroupIdNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLUMNS = (
    *("Group", "Topic", "Partition#", "Lag#", "Lag s#", "Host?", "Client?", "Member?"),
    *("Committed#?", "Latest#?", "Type?", "State?"),
)
#: So many reasons for missing figures are printed.
_REASONS_MAX = 5


@click.command("lag")
@click.argument("names", metavar="[GROUP|PATTERN]...", type=GroupType(), nargs=-1)
@click.option("--topic", "topics", type=TopicType(), multiple=True, help="In this topic alone; may be repeated.")
@click.option("--type", "types", type=click.Choice(TYPES), multiple=True, help="Groups of this type; may be repeated.")
@click.option("--behind", is_flag=True, help="Only partitions with a lag.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Only the N worst partitions.")
@click.option("--no-seconds", is_flag=True, help="Do not look up the times of records: fewer requests.")
@click.option(
    "--fail-above",
    type=click.IntRange(min=0),
    metavar="LAG",
    help=f"Exit with status {int(Status.LAGGING)} when the lag of a group in a partition (seen last) is above this, and "
    f"with {int(Status.FAILED)} when one is not known.",
)
@listing_command
def lag(
    session: Session,
    names: tuple[str, ...],
    topics: tuple[str, ...],
    types: tuple[str, ...],
    behind: bool,
    top: int | None,
    no_seconds: bool,
    fail_above: int | None,
    as_json: bool,
) -> None:
    """Print the lag of all groups by partition, worst first.

    Names may have * and ?. Uses the committed offsets, of groups of every type; it commits nothing and joins nothing. "Lag s"
    is the time between the record that the group reads next and the newest one of the partition (s): 0 when all is read.
    """
    with session.client() as client:
        listed = listed_groups(client, types)
        try:
            wanted = matching(listed, names)
        except GroupIdNotFound:
            fail(list(listed.errors.values()))  # it may be at a broker that did not answer
            if listed.errors:
                return
            raise
        found = lags_of(client, wanted, topics, not no_seconds)
    rows = [row for row in found.rows if row.lag or not behind]
    shown = rows[:top]
    rates = show.Rates(
        lambda row: (row.group, row.topic, row.partition),
        lambda row: {"consumed": row.committed, "produced": row.latest},
    )
    print_rows(shown, as_json, _COLUMNS, _cells, rates=rates)
    if not as_json:
        _print_summary(found, len(rows) - len(shown), shown)
    fail([*listed.errors.values(), *found.errors])
    if fail_above is not None:
        end_with(_judged(found.rows, fail_above))


def _judged(rows: Sequence[GroupLag], limit: int) -> Status:
    """Return the status for --fail-above: a lag that is not known is no reason to be quiet, unless nothing is there."""
    if any((row.lag or 0) > limit for row in rows):
        return Status.LAGGING
    return Status.FAILED if any(row.lag is None and row.latest != 0 for row in rows) else Status.OK


def _cells(row: GroupLag) -> tuple[Any, ...]:
    return (
        *(row.group, row.topic, row.partition, show.lagging(row.lag), row.lag_s),
        *(row.host, row.client, row.member, row.committed, row.latest, row.type, row.state),
    )


def _print_summary(found: Lags, left_out: int, shown: Sequence[GroupLag]) -> None:
    out = show.console()
    if left_out:
        out.print(f"{left_out:,} more are not shown (--top).")
    behind = {row.group for row in found.rows if row.lag}
    total = sum(row.lag or 0 for row in found.rows)
    out.print(f"{counted(len(behind), 'group')} of {len(found.groups):,} behind, by {counted(total, 'record')} in all.")
    reasons = Counter(row.error for row in shown if row.error is not None)
    for reason, count in reasons.most_common(_REASONS_MAX):
        out.print(show.styled(f'"-" in {counted(count, "row")}: {reason}'), soft_wrap=True)


COMMANDS = (lag,)
