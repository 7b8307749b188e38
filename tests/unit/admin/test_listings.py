"""Lists of all brokers' groups and transactions: an entry that two brokers list is named once, as its coordinator has it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.admin import Admin, GroupListing, GroupState, GroupType, TransactionState
from pykafka.admin.base import AdminBase
from pykafka.admin.results import Results
from pykafka.admin.routing import Coordinators
from pykafka.admin.transactions import TransactionListing
from pykafka.exceptions import KafkaException, NoBrokersAvailableError, NotCoordinatorForGroup


def group(name: str, coordinator: int, state: GroupState = GroupState.STABLE) -> GroupListing:
    return GroupListing(name, GroupType.CLASSIC, state, "consumer", coordinator)


def transaction(name: str, coordinator: int) -> TransactionListing:
    return TransactionListing(name, 7, TransactionState.ONGOING, coordinator)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return an `Admin` whose brokers answer as `answers` says, and whose coordinators are those of `places`."""
    cluster: Any = SimpleNamespace(handler=SimpleNamespace(now=lambda: 0.0), brokers={1: None, 2: None})
    made: Any = Admin(cluster)
    made.answers, made.places, made.asked, made.listers, made.update = {}, {}, [], [], lambda brokers: None
    cluster.update = lambda topics, timeout_ms: made.update(cluster.brokers)

    def find(self: Coordinators[str], items: Sequence[str], left_ms: int) -> Any:
        made.asked.append((self._kind, list(items)))
        if isinstance(made.places, KafkaException):
            raise made.places
        return {item: made.places[item] for item in items}

    def ask(self: AdminBase, items: Sequence[int], *args: Any) -> Any:
        made.listers.append(items)
        return Results(made.answers)

    monkeypatch.setattr(AdminBase, "_ask", ask)
    monkeypatch.setattr(Coordinators, "find", find)
    return made


def test_a_group_that_two_brokers_list_is_named_once(admin: Any) -> None:
    admin.answers = {
        1: [group("b", 1, GroupState.DEAD), group("a", 1), group("c", 1)],
        2: [group("b", 2), group("c", 2), group("d", 2)],
    }
    admin.places = {"b": SimpleNamespace(id=2), "c": NotCoordinatorForGroup("it moves")}
    assert list(admin.list_groups()) == [group("a", 1), group("b", 2), group("c", 1), group("d", 2)]
    assert admin.asked == [(0, ["b", "c"])]
    admin.places = NotCoordinatorForGroup("nobody knows")
    assert [one.group for one in admin.list_groups()] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("call", ["list_groups", "list_transactions", "describe_log_dirs"])
def test_a_broker_that_has_come_back_is_asked(admin: Any, call: str) -> None:
    """The metadata may be minutes old, and the broker may coordinate what the others do not list."""
    admin.update = lambda brokers: brokers.update({3: None})
    getattr(admin, call)()
    assert admin.listers == [[1, 2, 3]]


@pytest.mark.parametrize("call", ["list_groups", "list_transactions", "describe_log_dirs"])
def test_without_an_answer_the_brokers_are_those_known(admin: Any, call: str) -> None:
    """Some of them may answer in time yet; the others are among the errors."""

    def fail(brokers: Any) -> None:
        raise NoBrokersAvailableError("none has answered")

    admin.update = fail
    getattr(admin, call)()
    assert admin.listers == [[1, 2]]


def test_a_transaction_that_two_brokers_list_is_named_once(admin: Any) -> None:
    admin.answers = {1: [transaction("t", 1)], 2: [transaction("t", 2), transaction("s", 2)]}
    admin.places = {"t": SimpleNamespace(id=2)}
    assert list(admin.list_transactions()) == [transaction("s", 2), transaction("t", 2)]
    assert admin.asked == [(1, ["t"])]
