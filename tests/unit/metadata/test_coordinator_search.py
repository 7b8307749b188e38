"""Questions about coordinators that several workers share: each worker gets its answer, and a newer one ends the older ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka.exceptions import ResponseTimeoutError
from pykafka.handlers import Handler
from pykafka.metadata.coordinator_search import CoordinatorSearch, Key
from pykafka.network.in_flight import ResponseFuture
from pykafka.protocol import wire

KEY: Key = ("orders", 0)
#: How long a call may take that has its answer (ms).
LONG_MS = 5_000


class Question(ResponseFuture):
    """A question to a broker; other workers go on while a worker looks at it."""

    __slots__ = ("meanwhile",)

    def __init__(self, handler: Handler) -> None:
        super().__init__(handler)
        self.meanwhile: dict[str, Callable[[], object]] = {}

    def names(self, broker_id: int) -> None:
        """Answer with a coordinator."""
        self.set_response(wire.FindCoordinatorResponse(node_id=broker_id))

    def __getattribute__(self, name: str) -> Any:
        if name in ("error", "add_done_callback"):
            object.__getattribute__(self, "meanwhile").pop(name, int)()
        return object.__getattribute__(self, name)


class Broker:
    """A broker that answers when a test says so; the coordinator that it names at once if it knows one."""

    address = "broker:9092"

    def __init__(self, handler: Handler, coordinator: int | None = None) -> None:
        self._handler = handler
        self.coordinator = coordinator
        self.questions: list[Question] = []
        self.is_asked = handler.Event()

    def is_connected(self, channel: str) -> bool:
        """Return that it is connected."""
        return channel == "main"

    def send(self, request: Any, channel: str, *, ceiling: int, until: float) -> Question:
        """Take a question."""
        assert (request.key, request.key_type) == KEY
        question = Question(self._handler)
        self.questions.append(question)
        if self.coordinator is not None:
            question.names(self.coordinator)
        self.is_asked.set()
        return question


@pytest.fixture
def search(handler: Handler) -> CoordinatorSearch:
    return CoordinatorSearch(handler)


def test_an_answer_that_another_worker_takes_out_counts_for_both(handler: Handler, search: CoordinatorSearch) -> None:
    """The second one had seen the question, but not yet taken note of it: it waited for its whole time for nothing."""
    broker: Any = Broker(handler)
    found: list[int] = []
    first = handler.spawn(lambda: found.append(search.ask(broker, KEY, LONG_MS)[1].node_id))
    assert broker.is_asked.wait(5)
    (question,) = broker.questions

    def answer() -> None:
        question.names(3)
        assert first.join(5)

    question.meanwhile["error"] = answer
    assert search.ask(broker, KEY, 100)[1].node_id == 3
    assert found == [3]
    assert broker.questions == [question]


def test_a_question_that_replaces_a_failed_one_stays(handler: Handler, search: CoordinatorSearch) -> None:
    """A worker that notices the failure late must not take the newer question out, whose answer others wait for."""
    broker: Any = Broker(handler)
    with pytest.raises(ResponseTimeoutError):
        search.ask(broker, KEY, 1)
    (failed,) = broker.questions

    def ask_anew() -> None:
        failed.set_error(ResponseTimeoutError("the connection ended"))
        with pytest.raises(ResponseTimeoutError, match="in time"):
            search.ask(broker, KEY, 1)

    failed.meanwhile["add_done_callback"] = ask_anew
    with pytest.raises(ResponseTimeoutError, match="ended"):
        search.ask(broker, KEY, LONG_MS)
    broker.questions[-1].names(2)
    assert search.ask(broker, KEY, 100)[1].node_id == 2
    assert len(broker.questions) == 2


def test_an_older_question_ends_with_a_newer_answer(handler: Handler, search: CoordinatorSearch) -> None:
    """It was answered afterwards, with the former coordinator, and counted for the next search."""
    slow: Any = Broker(handler)
    quick: Any = Broker(handler, coordinator=2)
    with pytest.raises(ResponseTimeoutError):
        search.ask(slow, KEY, 1)
    assert search.ask(quick, KEY, LONG_MS)[1].node_id == 2
    slow.questions[0].names(1)
    quick.coordinator = 3
    answered, response = search.ask(quick, KEY, LONG_MS)
    assert answered is quick
    assert response.node_id == 3


def test_an_answer_that_comes_late_ends_the_next_call(handler: Handler, search: CoordinatorSearch) -> None:
    slow: Any = Broker(handler)
    silent: Any = Broker(handler)
    with pytest.raises(ResponseTimeoutError):
        search.ask(slow, KEY, 1)
    slow.questions[0].names(1)
    answered, response = search.ask(silent, KEY, 100)
    assert answered is slow
    assert response.node_id == 1
