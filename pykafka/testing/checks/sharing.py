"""Checks of share groups: a record is accepted once, by the member that has it."""

from __future__ import annotations

from collections.abc import Iterator

from pykafka.testing.checks.anomaly import Anomaly
from pykafka.testing.checks.facts import Facts
from pykafka.testing.checks.holders import check_holders


def check_sharing(facts: Facts) -> Iterator[Anomaly]:
    """Return what is wrong with the records of share groups."""
    yield from check_holders(facts)
