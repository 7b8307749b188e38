"""`Scale`: how many programs a seed has, and for how long they run."""

from __future__ import annotations

from dataclasses import dataclass

#: Seeds from this one on are small. Those before stay as they are, since tests and pages name some by their numbers.
SMALL_FROM = 1_000_000_000


@dataclass(frozen=True)
class Scale:
    """The numbers and chances (from 0 to 1) that a seed draws its programs by.

    :param brokers: the fewest, and the most
    :param lasts_ms: how long programs write (ms), one of these
    :param handles: the chance of programs that handle records exactly once
    :param loses: that of a topic that loses records
    :param changes_topics: that of members that change their topics
    :param administers: that of a program that administers
    :param transacts: that of a transactional producer
    :param joins: that of members of an ordinary group
    :param stays: that of members of it that are static
    :param limits: that of a topic of records of all sizes that takes small batches only, for some times
    :param kinds: the kinds of extra programs, each as often as it is there
    """

    brokers: tuple[int, int]
    lasts_ms: tuple[int, ...]
    handles: float
    loses: float
    changes_topics: float
    administers: float
    transacts: float
    joins: float
    stays: float
    limits: float
    kinds: tuple[str, ...]


_KINDS = ("share", "share", "share", "commits", "letters", "sizes")

#: About seven programs, and 100 ms of the processor's time.
LARGE = Scale(
    brokers=(3, 5),
    lasts_ms=(2_000, 3_000, 7_000),
    handles=0.3,
    loses=0.2,
    changes_topics=0.1,
    administers=0.2,
    transacts=0.6,
    joins=0.6,
    stays=0.0,
    limits=0.0,
    kinds=(*_KINDS, "none", "none"),
)
#: About five programs, and 60 ms: docs/development/simulation.md has how many defects each kind finds in a second.
SMALL = Scale(
    brokers=(3, 4),
    lasts_ms=(2_000, 3_000, 5_000),
    handles=0.16,
    loses=0.11,
    changes_topics=0.055,
    administers=0.11,
    transacts=0.32,
    joins=0.32,
    stays=0.35,
    limits=0.8,
    kinds=(*_KINDS, *["none"] * 8),
)


def scale_of(seed: int) -> Scale:
    """Return the scale of a seed, which its number decides."""
    return SMALL if seed >= SMALL_FROM else LARGE
