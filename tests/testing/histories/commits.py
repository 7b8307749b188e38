"""Histories of committed offsets that are lost, go back or are beyond what was read; and right ones."""

from __future__ import annotations

from pykafka.testing.history import Commit, Committed, Crash, Place
from tests.testing.stories import GROUP, P0, P1, TOPIC, Story, Write

# Anomalies


def commit_beyond(story: Story) -> None:
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(2)


def commit_beyond_before_any_read(story: Story) -> None:
    story.sends(1, 2)
    story.assigned(1, P0)
    story.commit(1)


def commit_beyond_after_another_member(story: Story) -> None:
    """Its own former position does not count: it has to begin at the committed offset, and was given nothing since."""
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.revoked(1, P0)
    story.assigned(2, P0, who="d")
    story.revoked(2, P0, who="d")
    story.assigned(3, P0)
    story.commit(1)


def commit_after_loss(story: Story) -> None:
    story.send(1, 0)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.revoked(2, P0)
    story.commit(1)


def commit_by_former_owner(story: Story) -> None:
    """The member does not know yet that another one has its partition; its coordinator does, and takes its commit."""
    story.send(1, 0)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.assigned(2, P0, who="d")
    story.commit(1)


def commit_of_two_after_the_loss_of_one(story: Story) -> None:
    """The acknowledgement names the one that the member had given up, and leaves the other one out."""
    story.send(1, 0)
    story.assigned(1, P0, P1)
    story.poll((0, 1))
    story.revoked(2, P0)
    begun = story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 1), Place(TOPIC, 1, 0))))
    story.ok(begun, Commit(GROUP, (Place(TOPIC, 0, 1),)))


def commit_went_back(story: Story) -> None:
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    story.commit(2)
    story.commit(1)


def committed(story: Story, offset: int) -> None:
    story.ok(story.invoke("d", Committed(GROUP)), Committed(GROUP, (Place(TOPIC, 0, offset),)))


def lost_commit(story: Story) -> None:
    story.sends(1, 2)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    story.commit(2)
    committed(story, 1)


def forgotten_commit(story: Story) -> None:
    story.sends(1)
    story.poll((0, 1))
    story.commit(1)
    committed(story, -1)


def lost_commit_after_a_part(story: Story) -> None:
    """The second one has certainly replaced what the first may have committed."""
    story.sends(1, 2)
    story.poll((0, 1))
    begun = story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 1),)))
    story.ok(begun, Commit(GROUP, ()))
    story.poll((1, 2))
    story.commit(2)
    committed(story, 1)


def committed_late(story: Story, lasts_ms: int, after_ms: int, cut: str = "") -> None:
    """The first request of a commit is late by 2.5 s; the call ends by another one, and a later commit is made.

    :param lasts_ms: how long the call takes (ms)
    :param after_ms: how long after it the later commit begins (ms)
    :param cut: the API whose connections are cut meanwhile, if any are
    """
    story.sends(1, 2)
    story.fault("late", "OffsetCommit", "2500", "1", number=0)
    story.poll((0, 1))
    begun = story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 1),)))
    if cut:
        story.fault("cut", cut, "after", "1")
    story.clock_ms += lasts_ms
    story.ok(begun)
    story.poll((1, 2))
    story.clock_ms += after_ms
    story.commit(2)
    committed(story, 1)


def commit_has_made_one_request(story: Story) -> None:
    committed_late(story, 10, 300)


def commit_has_made_one_request_while_others_were_cut(story: Story) -> None:
    committed_late(story, 70, 300, cut="Produce")


def commit_comes_later_than_it_can(story: Story) -> None:
    committed_late(story, 1_100, 3_000)


def hands_over(story: Story, outcome: str = "ok") -> None:
    """A member reads two records, commits, and gives its partition to another one.

    :param outcome: of its commit
    """
    story.member()
    story.member("d")
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    story.commit(2, outcome=outcome)
    story.revoked(2, P0)
    story.assigned(2, P0, who="d")


def commit_went_back_over_a_rebalance(story: Story, *read: tuple[int, int]) -> None:
    """The first commit of the next owner is before that of the former one.

    :param read: what it was given by then
    """
    hands_over(story)
    if read:
        story.poll(*read, who="d")
    story.commit(1, who="d")


def commit_went_back_though_it_has_read(story: Story) -> None:
    commit_went_back_over_a_rebalance(story, (2, 3))


def commit_went_back_by_a_restarted_member(story: Story) -> None:
    story.member()
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    story.commit(2)
    story.note("c", Crash())
    story.member()
    story.assigned(2, P0)
    story.poll((2, 3))
    story.commit(1)


def commit_by_a_restarted_member(story: Story) -> None:
    """It has no partition yet."""
    story.member()
    story.send(1, 0)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.note("c", Crash())
    story.member()
    story.commit(1)


def commit_beyond_as_one_that_was_refused(story: Story) -> None:
    """A commit that had no effect is no reason for another one."""
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(3, outcome="fail")
    story.revoked(2, P0)
    story.assigned(2, P0, who="d")
    story.commit(3, who="d")


def commit_beyond_that_others_see(story: Story) -> None:
    """It got no answer, but it has had its effect."""
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.commit(3, outcome="unknown")
    committed(story, 3)


# Right


def request_of_a_commit_comes_again(story: Story) -> None:
    committed_late(story, 1_100, 300)


def request_of_a_commit_comes_again_behind_a_cut(story: Story) -> None:
    committed_late(story, 70, 300, cut="OffsetCommit")


def refused_commits(story: Story) -> None:
    """A member that lost a partition, or commits too much, is refused, or gets no answer."""
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.assigned(2, P0, who="d")
    story.commit(1, outcome="fail")
    story.commit(2, outcome="unknown")


def commit_behind_a_marker(story: Story) -> None:
    story.consumer(committed=True, group=GROUP)
    story.begin()
    story.send(1, 0)
    story.commit_transaction()
    story.begin()
    story.send(2, 2)
    story.abort()
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(4)
    committed(story, 4)


def commit_while_others_ask(story: Story) -> None:
    story.sends(1, 2)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    story.commit(2, outcome="unknown")
    committed(story, 1)
    committed(story, 2)


def committed_all(story: Story) -> None:
    """A program that commits all of its positions learns from the answer what they were."""
    story.member()
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    begun = story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 1),)))
    story.ok(begun, Commit(GROUP, (Place(TOPIC, 0, 2),)))
    committed(story, 2)
    story.revoked(1, P0)
    story.member("d")
    story.assigned(2, P0, who="d")
    story.poll((2, 3), who="d")


def committed_part(story: Story) -> None:
    """A program commits all of its positions while its consumer gives a partition up, which may be committed or not."""
    story.sends(1, 2)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    begun = story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 2),)))
    story.ok(begun, Commit(GROUP, ()))
    committed(story, 1)
    committed(story, 2)


def committed_part_after_a_loss(story: Story) -> None:
    """Another member has the partition that the acknowledgement leaves out: the consumer knew that when it committed."""
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.assigned(2, P0, who="d")
    begun = story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 1),)))
    story.ok(begun, Commit(GROUP, ()))


def committed_all_of_unknown_positions(story: Story) -> None:
    """A program commits all of its positions, and does not know them when the call begins."""
    story.member()
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    begun = story.invoke("c", Commit(GROUP, ()))
    story.ok(begun, Commit(GROUP, (Place(TOPIC, 0, 1),)))
    story.poll((1, 2))
    story.commit(2)
    committed(story, 2)


def committed_behind_a_marker(story: Story) -> None:
    """The commit of all positions has taken effect, behind the marker of a transaction, and has not ended yet."""
    story.member()
    story.begin()
    story.send(1, 0)
    story.commit_transaction()
    story.send(2, 2)
    story.assigned(1, P0)
    story.commit(0)
    story.poll((0, 1))
    story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 1),)))
    committed(story, 2)


def committed_while_it_sought(story: Story) -> None:
    """A commit ends when its member has gone back already, and commits that."""
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    begun = story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 2),)))
    story.seek(1)
    story.ok(begun)
    story.commit(1)


def committed_where_it_goes_on(story: Story) -> None:
    """A member that gets a partition back at once is still behind what it was given before."""
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.revoked(1, P0)
    story.assigned(2, P0)
    story.commit(1)


def commit_behind_a_seek_back(story: Story) -> None:
    hands_over(story)
    story.seek(0, who="d")
    story.poll((0, 1), who="d")
    story.commit(1, who="d")


def commits_of_the_next_owner(story: Story) -> None:
    """It commits where it begins: at a commit of unknown outcome, or at the one before."""
    for generation, offset in ((2, 1), (4, 2)):
        story.member()
        story.member("d")
        if generation == 2:
            story.sends(1, 2, 3)
        story.assigned(generation - 1, P0)
        if generation == 2:
            story.poll((0, 1))
            story.commit(1)
        story.poll((1, 2))
        story.commit(2, outcome="unknown")
        story.revoked(generation, P0)
        story.assigned(generation, P0, who="d")
        story.commit(offset, who="d")
        story.revoked(generation, P0, who="d")


def commit_behind_one_that_was_refused(story: Story) -> None:
    hands_over(story, outcome="fail")
    story.poll((0, 1), who="d")
    story.commit(1, who="d")


PLANTED: list[tuple[str, Write]] = [
    ("commit-beyond", commit_beyond),
    ("commit-beyond", commit_beyond_before_any_read),
    ("commit-beyond", commit_beyond_after_another_member),
    ("commit-after-loss", commit_after_loss),
    ("commit-after-loss", commit_by_former_owner),
    ("commit-after-loss", commit_of_two_after_the_loss_of_one),
    ("commit-went-back", commit_went_back),
    ("lost-commit", lost_commit),
    ("lost-commit", forgotten_commit),
    ("lost-commit", lost_commit_after_a_part),
    ("lost-commit", commit_has_made_one_request),
    ("lost-commit", commit_has_made_one_request_while_others_were_cut),
    ("lost-commit", commit_comes_later_than_it_can),
    ("commit-went-back", commit_went_back_over_a_rebalance),
    ("commit-went-back", commit_went_back_though_it_has_read),
    ("commit-went-back", commit_went_back_by_a_restarted_member),
    ("commit-after-loss", commit_by_a_restarted_member),
    ("commit-beyond", commit_beyond_as_one_that_was_refused),
    ("commit-beyond", commit_beyond_that_others_see),
]
LEGAL: list[tuple[str, Write]] = [
    ("", refused_commits),
    ("", commit_behind_a_marker),
    ("", commit_while_others_ask),
    ("", committed_all),
    ("", committed_part),
    ("", committed_part_after_a_loss),
    ("", committed_all_of_unknown_positions),
    ("", committed_behind_a_marker),
    ("", committed_while_it_sought),
    ("", request_of_a_commit_comes_again),
    ("", request_of_a_commit_comes_again_behind_a_cut),
    ("", committed_where_it_goes_on),
    ("", commit_behind_a_seek_back),
    ("", commits_of_the_next_owner),
    ("", commit_behind_one_that_was_refused),
]
