"""Histories with an anomaly each, and histories that look wrong and break no promise: a module for each subject."""

from __future__ import annotations

from tests.testing.histories import (
    administered,
    beginnings,
    commits,
    ends,
    kept,
    order,
    owners,
    records,
    sharing,
    transactions,
)
from tests.testing.stories import Write

_SUBJECTS = (records, transactions, order, owners, beginnings, commits, sharing, ends, administered, kept)
#: The name of the anomaly, and what writes the history.
PLANTED: list[tuple[str, Write]] = [case for subject in _SUBJECTS for case in subject.PLANTED]
#: The name of what is observed and allowed ("": nothing), and what writes the history.
LEGAL: list[tuple[str, Write]] = [case for subject in _SUBJECTS for case in subject.LEGAL]
