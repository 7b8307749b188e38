"""The epochs and partitions of a share session."""

from __future__ import annotations

from pykafka.sharegroups.session_worker import LAST_EPOCH, ShareSession


def test_the_first_fetch_opens_it_and_later_ones_name_what_has_changed() -> None:
    session: ShareSession[str] = ShareSession()
    assert session.fetch(["a", "b"]) == (0, ["a", "b"], [])
    assert session.is_open
    assert session.fetch(["a", "b"]) == (1, [], [])
    assert session.acknowledge() == 2
    assert session.fetch(["b", "c"]) == (3, ["c"], ["a"])


def test_after_a_failure_another_one_begins() -> None:
    session: ShareSession[str] = ShareSession()
    session.fetch(["a"])
    session.failed()
    assert not session.is_open
    assert session.may_linger
    assert session.fetch(["a"]) == (0, ["a"], [])


def test_after_the_highest_epoch_comes_the_one_after_the_first() -> None:
    session: ShareSession[str] = ShareSession()
    session._epoch = LAST_EPOCH
    assert session.acknowledge() == LAST_EPOCH
    assert session.acknowledge() == 1
