"""Features of brokers that not every release has, which tests need: stated here once, and by name in the tests.

`@pytest.mark.needs("headers")` leaves a test out where KAFKA_VERSION is an older release, `@pytest.mark.lacks("headers")`
where it is not; how many were left out, and why, is printed at the end of the run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from tests.brokers.releases import LATEST, release

#: Which Kafka the shared brokers are: `KAFKA_VERSION=0.9.0.1 pytest tests/integration` tries another.
KAFKA_VERSION = os.environ.get("KAFKA_VERSION", LATEST)


class Feature(NamedTuple):
    """A feature that brokers have from one release on.

    :param since: the release, as numbers
    :param what: for people
    """

    since: tuple[int, ...]
    what: str

    def __str__(self) -> str:
        return f"{self.what} (Kafka {'.'.join(map(str, self.since))})"


FEATURES = {
    "groups": Feature((0, 9), "groups that the brokers keep"),
    "tls": Feature((0, 9), "listeners with TLS"),
    "timestamps": Feature((0, 10), "messages with a time"),
    "times": Feature((0, 10, 1), "offsets by time"),
    "whole": Feature((0, 10, 1), "messages that come whole, though larger than what is asked for"),
    "admin": Feature((0, 10, 1), "topics made and deleted by request"),
    "sasl": Feature((0, 10, 2), "listeners with SASL, and SCRAM"),
    "transactions": Feature((0, 11), "transactions"),
    "producers": Feature((0, 11), "ids of producers"),
    "deletion": Feature((0, 11), "records deleted by request"),
    "headers": Feature((0, 11), "messages with headers"),
    "settings": Feature((0, 11), "settings of topics told by request"),
    "partitions": Feature((1, 0), "partitions added by request"),
    "bearer tokens": Feature((2, 0), "OAUTHBEARER"),
    "delegation tokens": Feature((2, 0), "delegation tokens"),
    "zstd": Feature((2, 1), "zstd"),
    "sessions": Feature((2, 2), "sessions that end unless the client authenticates again"),
    "ids": Feature((2, 2), "members of groups that are told their id before they wait for the others"),
    "alterations": Feature((2, 3), "settings of topics changed one by one, by request"),
    "static": Feature((2, 3), "static members of groups"),
    "latest": Feature(
        release(LATEST).numbers, "what other clients, and the tests of the brokers themselves, were made for"
    ),
    "stable offsets": Feature((2, 5), "offsets told only where no transaction is about to commit others"),
    "quotas": Feature((2, 6), "quotas set by request"),
    "scram users": Feature((2, 7), "SCRAM users made by request"),
    "topic ids": Feature((2, 8), "ids that tell a topic from a former one of its name"),
    "listed transactions": Feature((3, 0), "transactions told by request"),
    "signed tokens": Feature((3, 1), "signatures of tokens that are checked"),
    "leader hints": Feature((3, 7), "leaders that are named beside errors"),
    # On Java 17: Kafka 2.8.2 ends such a handshake by bytes that are no TLS, 3.9.2 does not.
    "alerts": Feature((3, 9), "handshakes with TLS that are refused by an alert"),
    "assigning": Feature((4, 0), "groups whose shares the broker works out"),
    "writing by id": Feature((4, 1), "records for topics that are told by their ids"),
    "share groups": Feature((4, 2), "share groups"),
    "broker identity": Feature((4, 4), "brokers that refuse connections meant for others"),
    "transactions by id": Feature((4, 4), "offsets in transactions for topics that are told by their ids"),
    "committing by id": Feature((4, 2), "offsets for topics that are told by their ids"),
}


def kafka_since(*version: int) -> bool:
    """Return whether the shared brokers are of this release or a later one."""
    return tuple(map(int, KAFKA_VERSION.split("."))) >= version


def obstacle(needed: Iterable[str], lacked: Iterable[str]) -> str | None:
    """Return why a test cannot run on the shared brokers; None if it can.

    :param needed: features that they must have
    :param lacked: features that they must not have
    """
    for name in needed:
        if not kafka_since(*FEATURES[name].since):
            return f"need {FEATURES[name]}"
    for name in lacked:
        if kafka_since(*FEATURES[name].since):
            return f"need brokers without {FEATURES[name]}"
    return None
