"""The ids of the topics that a query reads, and what a group's offsets keep of them."""

from __future__ import annotations

from uuid import UUID

import pytest

from pykafka.common import TopicPartition
from pykafka.spark.data_loss import Recreated, TopicIds
from pykafka.spark.progress import MARK, MAX_LENGTH, kept, texts

ONE, TWO, THREE = (UUID(int=n) for n in (1, 2, 3))
A0, A1, B0, C0 = (TopicPartition(*at) for at in (("a", 0), ("a", 1), ("b", 0), ("c", 0)))


def test_a_topic_made_anew_is_told_once_and_left_behind() -> None:
    ids = TopicIds()
    ids.learn({"a": ONE, "b": TWO})
    assert ids.recreated(["a", "b"], {"a": ONE, "b": TWO}) == []
    found = Recreated("a", ONE, THREE)
    assert ids.recreated(["b", "a", "a"], {"a": THREE, "b": TWO}) == [found]
    assert [ids.is_news(found), ids.is_news(found)] == [True, False]
    ids.move_on(found)
    assert ids.known == {"a": THREE, "b": TWO}
    # A broker that has not heard the news.
    assert ids.recreated(["a"], {"a": ONE}) == []
    assert ids.recreated(["a"], {"a": TWO}) == [Recreated("a", THREE, TWO)]


def test_ids_that_nobody_tells() -> None:
    ids = TopicIds()
    ids.learn({})
    assert ids.recreated(["a"], {"a": ONE}) == []
    ids.learn({"a": ONE})
    assert ids.recreated(["a"], {}) == []
    ids.learn({"a": TWO})
    assert ids.known == {"a": ONE}


def test_a_text_has_the_ids_of_neighbours() -> None:
    names = {name: UUID(int=n) for n, name in enumerate("abcdef")}
    found = texts(names, names)
    assert found["a"] == f"{MARK}; topic ids:" + "".join(f" {name}={names[name]}" for name in "abcd")
    assert found["e"] == f"{MARK}; topic ids:" + "".join(f" {name}={names[name]}" for name in "efab")
    assert texts(["a"], {"b": ONE}) == {"a": MARK}
    long = {f"{n}".zfill(249): UUID(int=n) for n in range(5)}
    for name, text in texts(long, long).items():
        assert f"{name}={long[name]}" in text
        assert text.count("=") == 3
        assert len(text) <= MAX_LENGTH


def test_what_a_group_keeps_of_topics() -> None:
    before = texts("ab", {"a": ONE, "b": TWO})
    start = {A0: 5, A1: 0, B0: 7}
    both = {A0: (5, before["a"]), A1: (0, before["a"]), B0: (7, before["b"])}
    assert kept(start, both) == ({"a": ONE, "b": TWO}, [])
    # The brokers have deleted a's offsets with it.
    assert kept(start, both | {A0: (-1, ""), A1: (-1, "")}) == ({"a": ONE, "b": TWO}, [])
    # All topics are recreated, or nothing was ever committed.
    assert kept(start, dict.fromkeys(start, (-1, ""))) == ({}, ["a", "b"])
    # Nothing was read, so nothing can be lost.
    assert kept({A0: 0}, {A0: (-1, "")}) == ({}, [])
    # What stands beside a topic counts more than what others say of it.
    assert kept(start, both | {A0: (5, texts("a", {"a": THREE})["a"])}).ids["a"] in (ONE, THREE)
    assert kept({A0: 5, B0: 7}, {A0: (5, texts("a", {"a": THREE})["a"]), B0: (7, before["b"])}).ids["a"] == THREE


@pytest.mark.parametrize("text", ["", MARK, "of another program", f"{MARK}; topic ids: a=1", f"{MARK}; topic ids: a"])
def test_texts_that_say_nothing(text: str) -> None:
    assert kept({A0: 5, C0: 1}, {A0: (5, text), C0: (1, text)}) == ({}, [])
