"""Members of many topics that change from one assignor to another while the group runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka import KafkaClient
from tests.support.subscribers import Members

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]


@pytest.fixture
def members(client: KafkaClient) -> Iterator[Members]:
    group = Members(client)
    yield group
    group.leave()


@pytest.mark.later("greenlets")
@pytest.mark.parametrize("after", ["sticky", "cooperative-sticky"])
def test_a_group_changes_its_assignor_in_two_bounces(members: Members, after: str) -> None:
    """At each step all of the topics is shared out, and after the last step evenly."""
    mixed: list[str] = [after, "range"]
    steps: list[tuple[str | list[str], list[int]]] = [
        ("range", [6]),
        ("range", [2, 4]),
        (mixed, [2, 4]),
        (mixed, [3, 3]),
        (after, [3, 3]),
        (after, [3, 3]),
    ]
    for assignor, sizes in steps:
        if len(members.members) == 2:
            members.leave(members.members[0])
        members.join(assignor=assignor)
        members.settled(*sizes)


def test_a_sticky_member_keeps_what_it_had(members: Members) -> None:
    one = members.join(assignor="sticky")
    members.settled(6)
    two = members.join(assignor="sticky")
    members.settled(3, 3)
    had = set(one.share)
    members.leave(two)
    members.settled(6)
    members.join(assignor="sticky")
    members.settled(3, 3)
    three = members.join(assignor="sticky")
    members.settled(2, 2, 2)
    members.leave(three)
    members.settled(3, 3)
    assert len(one.share & had) >= 2
