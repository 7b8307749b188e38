"""The topics that a subscription names, and the assignors that a member takes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pykafka.coordinator import AbstractPartitionAssignor, RangePartitionAssignor
from pykafka.groups.assignors import assignors_of, valid_assignor
from pykafka.groups.subscription import Subscription


def test_names_and_patterns() -> None:
    selection = Subscription(["b", b"a", "b", "^c-.*", re.compile("d")])
    assert selection.names == {"a", "b"}
    assert [pattern.pattern for pattern in selection.patterns] == ["^c-.*", "d"]
    assert repr(selection) == "a, b, ^c-.*, d"
    assert selection == Subscription(("a", "b", re.compile("^c-.*"), re.compile("d")))
    assert hash(selection) == hash(Subscription(("a", "b", re.compile("^c-.*"), re.compile("d"))))
    assert selection != Subscription(["a", "b"])
    assert selection != "a"
    assert Subscription("a") == Subscription([b"a"])
    assert Subscription(re.compile("a")) == Subscription([re.compile("a")])


def test_a_pattern_matches_whole_names() -> None:
    selection = Subscription(["named", "^orders-.", "^orders", re.compile("pay.*")])
    names = ["orders-1", "orders-12", "my-orders-1", "payments", "other"]
    selection.matched = selection.matches(names)
    assert selection.matched == {"orders-1", "payments"}
    assert selection.topics == {"named", "orders-1", "payments"}
    # other clients would read these
    assert selection.prefix_matches(names) == [("^orders", "orders-1")]
    assert selection.prefix_matches([*names, "orders"]) == []


@pytest.mark.parametrize(
    ("topics", "error", "text"),
    [
        ([], ValueError, "one topic at least"),
        (["a b"], ValueError, "no topic of the name 'a b'.*begins with"),
        ([""], ValueError, "no topic of the name ''"),
        (["^("], ValueError, r"'\^\(' begins with '\^', and is no pattern: missing \)"),
        (["^a{99999999999}"], ValueError, "is no pattern: the repetition number is too large"),
        ([re.compile(b"a")], TypeError, "must be of str, not of bytes: b'a'"),
        ([3], TypeError, "a topic to subscribe to must be"),
        ([None], TypeError, "a topic to subscribe to must be"),
    ],
)
def test_what_is_no_subscription_is_refused(topics: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Subscription(topics)


def test_assignors_by_name() -> None:
    assert valid_assignor("range", "assignor") == ("range",)
    assert valid_assignor(["roundrobin", "range", "range"], "assignor") == ("roundrobin", "range")


class Mine(RangePartitionAssignor):
    """An application's own."""

    name = "mine"


def test_names_of_java_s_classes_and_classes_of_one_s_own() -> None:
    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    assert valid_assignor([java, RangePartitionAssignor, Mine], "assignor") == ("cooperative-sticky", "range", Mine)
    assert assignors_of((Mine, "range"), "assignor") == [Mine, RangePartitionAssignor]
    one = Mine()
    assert assignors_of(one, "assignor") == [one]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ("stick", ValueError, "assignor must be 'range' or 'roundrobin' or 'sticky' or .* not 'stick'; members"),
        (["range", Mine, type("Other", (Mine,), {})], ValueError, "two assignors of the name 'mine'"),
        (AbstractPartitionAssignor, TypeError, "must be a name or an AbstractPartitionAssignor"),
        ([], ValueError, "assignor must name one at least"),
        (3, TypeError, "assignor must be a name or an AbstractPartitionAssignor, or a list of them, not int: 3"),
        ([3], TypeError, "not int: 3"),
    ],
)
def test_other_assignors_are_refused(value: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        valid_assignor(value, "assignor")
