"""The committed offsets of groups, over all their topics: lag, and resets partition by partition. Prints nothing."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.admin import GroupType, OffsetSpec
from pykafka.common import TopicPartition

if TYPE_CHECKING:
    from pykafka.client import KafkaClient

_DURATION = re.compile(
    r"(?:(\d+(?:\.\d+)?)w)?(?:(\d+(?:\.\d+)?)d)?t?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?",
    re.IGNORECASE,
)


class GroupOffset(NamedTuple):
    """A committed offset; `latest` and `lag` are None where the topic is gone.

    Of a share group, `committed` is the first offset that it may still get, and `lag` what it has not done with.
    """

    topic: str
    partition: int
    committed: int
    latest: int | None
    lag: int | None
    metadata: str


def group_offsets_of(client: KafkaClient, group: str, topics: Sequence[str] = ()) -> list[GroupOffset]:
    """Return the committed offsets of a group, with its lag. It commits nothing, and joins nothing.

    :param topics: these alone; none stands for all
    :raises GroupIdNotFound: there is no such group
    """
    admin = client.admin
    committed = admin.list_group_offsets(group)[group]
    if not committed and admin.describe_groups(group)[group].type == GroupType.SHARE:  # raises if it does not exist
        return _share_offsets(client, group, topics)
    wanted = sorted(item for item in committed if not topics or item.topic in topics)
    latest = admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest()), raise_errors=False)
    rows = []
    for item in wanted:
        end = latest[item].offset if item in latest else None
        offset = committed[item].offset
        lag = None if end is None else max(end - offset, 0)
        rows.append(GroupOffset(item.topic, item.partition, offset, end, lag, committed[item].metadata))
    return rows


def _share_offsets(client: KafkaClient, group: str, topics: Sequence[str]) -> list[GroupOffset]:
    found = client.admin.list_share_group_offsets(group)[group]
    wanted = sorted(
        item for item, one in found.items() if one.start_offset is not None and (not topics or item.topic in topics)
    )
    latest = client.admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest()), raise_errors=False)
    return [
        GroupOffset(
            item.topic,
            item.partition,
            found[item].start_offset or 0,
            latest[item].offset if item in latest else None,
            found[item].lag,
            "",
        )
        for item in wanted
    ]


def duration(text: str) -> timedelta:
    """Return the duration of "1d12h", "90s" or, as Kafka's own tools write it, "P1DT12H".

    :raises ValueError: the text has another form
    """
    found = _DURATION.fullmatch(text.removeprefix("P").removeprefix("p"))
    if found is None or not any(found.groups()):
        raise ValueError(f"{text!r} is no duration; write 1d12h, 90m, 30s or PT1H")
    weeks, days, hours, minutes, seconds = (float(one or 0) for one in found.groups())
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)


def parse_offsets(text: str, group: str) -> dict[TopicPartition, int]:
    """Return the offsets of a file: lines of [group,]topic,partition,offset, or JSON of `groups offsets` or `groups reset`.

    :param group: entries of other groups are left out
    :raises ValueError: the text has another form, names a partition twice, or has other groups only
    """
    found: dict[TopicPartition, int] = {}
    others: set[str] = set()
    rows = _json_rows(text) if text.lstrip().startswith(("[", "{")) else _csv_rows(text)
    for place, owner, topic, partition, offset in rows:
        key = TopicPartition(topic, partition)
        if owner not in (None, group):
            others.add(owner)
            continue
        if key in found:
            raise ValueError(f"{place}: partition {partition} of {topic} is named twice")
        found[key] = offset
    if not found and others:
        raise ValueError(f"it has no offsets of group {group}, but of {', '.join(sorted(others)[:5])}")
    if not found:
        raise ValueError("it names no partition; write topic,partition,offset")
    return found


#: Place in the file, group, topic, partition, offset.
_Row = tuple[str, str | None, str, int, int]
_HEADING = ("group", "topic", "partition", "offset")


def _csv_rows(text: str) -> Iterable[_Row]:
    for number, row in enumerate(csv.reader(io.StringIO(text.removeprefix("\ufeff"))), 1):
        cells = [cell.strip() for cell in row]
        heading = tuple(cell.lower() for cell in cells) in (_HEADING, _HEADING[1:])
        if not any(cells) or cells[0].startswith("#") or (heading and number == 1):
            continue
        if len(cells) not in (3, 4) or not cells[-2].isdecimal() or not cells[-1].isdecimal():
            raise ValueError(
                f"line {number} is neither topic,partition,offset nor group,topic,partition,offset: {','.join(row)!r}"
            )
        yield f"line {number}", cells[0] if len(cells) == 4 else None, cells[-3], int(cells[-2]), int(cells[-1])


def _json_rows(text: str) -> Iterable[_Row]:
    data: Any = json.loads(text)
    topic: Any
    for number, entry in enumerate(data if isinstance(data, list) else [data], 1):
        place = f"entry {number}"
        row = entry if isinstance(entry, dict) else {}
        owner, topic, partition = row.get("group"), row.get("topic"), row.get("partition")
        offset = next((row[name] for name in ("offset", "after", "committed") if row.get(name) is not None), None)
        named = isinstance(topic, str) and isinstance(owner, str | None)
        if not named or type(partition) is not int or type(offset) is not int or offset < 0:
            raise ValueError(f'{place} is not {{"topic": "t", "partition": 0, "offset": 5}}')
        yield place, owner, topic, partition, offset
