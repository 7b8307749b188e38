"""The ids of a query's topics as text beside its offsets in a consumer group (commitProgressTo). No I/O.

Brokers delete a group's offsets with their topic. Therefore the text of a topic has the ids of a few others as well: their
texts still tell its former id when it was made anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from pykafka.common import TopicPartition
from pykafka.spark.offsets import Offsets

#: How each text begins, for people who look for the committer.
MARK = "progress of a Spark query"
_IDS = "; topic ids:"
#: A text has the ids of so many further topics, and is no longer than this: brokers take 4,096 bytes unless set otherwise.
NEIGHBOURS = 3
MAX_LENGTH = 1000


class Kept(NamedTuple):
    """A group's knowledge of a query's topics.

    :param ids: by the topics' names
    :param absent: the topics that were read, of which the group has no offset
    """

    ids: Mapping[str, UUID]
    absent: Collection[str]


def texts(topics: Iterable[str], ids: Mapping[str, UUID]) -> dict[str, str]:
    """Return the text for the partitions of each topic.

    :param topics: names
    :param ids: the topics' ids, as far as they are known
    """
    names = sorted(set(topics))
    known = [name for name in names if name in ids]
    found = dict.fromkeys(names, MARK)
    for at, name in enumerate(known):
        text = MARK + _IDS
        for other in dict.fromkeys((*known[at:], *known[:at])[: NEIGHBOURS + 1]):
            longer = f"{text} {other}={ids[other]}"
            if len(longer) > MAX_LENGTH:
                break
            text = longer
        found[name] = text
    return found


def kept(start: Offsets, committed: Mapping[TopicPartition, tuple[int, str]]) -> Kept:
    """Return what a group's offsets tell of the topics of a query that continues.

    :param start: where the query continues
    :param committed: the group's offset, -1 for none, and its text for each of these partitions
    """
    ids: dict[str, UUID] = {}
    own: dict[str, UUID] = {}
    for tp, (_, text) in committed.items():
        told = _parsed(text)
        ids |= told
        if tp.topic in told:
            own[tp.topic] = told[tp.topic]
    there = {tp.topic for tp, (offset, _) in committed.items() if offset >= 0}
    read = {tp.topic for tp, offset in start.items() if offset > 0}
    ids |= own  # what stands beside a topic is at least as new as what stands beside others
    return Kept(ids, sorted(read - there - set(ids)))


def _parsed(text: str) -> dict[str, UUID]:
    if not text.startswith(MARK + _IDS):
        return {}
    found = {}
    for pair in text[len(MARK + _IDS) :].split():
        topic, _, value = pair.partition("=")
        try:
            found[topic] = UUID(value)
        except ValueError:  # of another version: as if it were not there
            continue
    return found
