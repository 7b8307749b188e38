"""`CoordinatorSearch`: asks brokers for coordinators, and counts answers that come late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.exceptions import ResponseTimeoutError, SocketDisconnectedError
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.network.in_flight import InFlightRequest
    from pykafka.network.node import Node

#: A late answer that nobody has waited for counts for so long after its question (s): coordinators move.
GOOD_S = 10.0
#: The highest version that asks for a single coordinator.
SINGLE_MAX = 3
CHANNEL = "main"

#: A group or a transactional id, and which of them it is (0 or 1).
Key = tuple[str, int]
#: A question to a broker, and when it was asked (on the handler's clock, s).
Question = tuple[float, "InFlightRequest[wire.FindCoordinatorResponse]"]


class CoordinatorSearch:
    """FindCoordinator, of one broker after another. A broker that is slow is not asked again while its answer is due.

    Its answer counts whenever it comes: for the worker that asks the next broker meanwhile, and for the next call, if the time
    of the first one was too short. So slow brokers get one question each, and the first answer of any ends the search.

    State: `_due` and its values change by single steps.

    :param handler: supplies events and the clock
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._due: dict[Key, dict[Node, Question]] = {}

    def ask(self, broker: Node, key: Key, timeout_ms: int) -> tuple[Node, wire.FindCoordinatorResponse]:
        """Return the first answer to the questions about a key, and who has given it; ask a broker that owes none.

        :param timeout_ms: for connecting and for the answer
        :raises ResponseTimeoutError: no broker that was asked has answered; later answers count
        :raises SocketDisconnectedError: the broker cannot be reached
        """
        now = self._handler.now
        deadline = now() + timeout_ms / 1000
        self._drop_old(now())
        asked = self._due.setdefault(key, {})
        was_up = broker.is_connected(CHANNEL)
        question = asked.get(broker)
        if question is None or question[1].error is not None:
            question = self._send(broker, key, asked, deadline)
        try:
            return self._first_answer(broker, key, {**asked, broker: question}, deadline)
        except ResponseTimeoutError:
            raise
        except SocketDisconnectedError:
            if not was_up:
                raise
        question = self._send(broker, key, asked, deadline)  # that connection may have been closed while it was idle
        return self._first_answer(broker, key, {**asked, broker: question}, deadline)

    def forget(self, key: Key) -> None:
        """Ignore the answers that are due now: the coordinator has moved since."""
        self._due.pop(key, None)

    def _drop_old(self, now: float) -> None:
        for key, asked in self._due.copy().items():
            for broker, (at, sent) in asked.copy().items():
                if sent.done and now - at > GOOD_S:
                    asked.pop(broker, None)
            if not asked:
                self._due.pop(key, None)

    def _send(self, broker: Node, key: Key, asked: dict[Node, Question], deadline: float) -> Question:
        name, kind = key
        request = wire.FindCoordinatorRequest(key=name, key_type=kind)
        at = self._handler.now()
        question = asked[broker] = at, broker.send(request, CHANNEL, ceiling=SINGLE_MAX, until=deadline)
        return question

    def _first_answer(
        self, broker: Node, key: Key, questions: dict[Node, Question], deadline: float
    ) -> tuple[Node, wire.FindCoordinatorResponse]:
        """Return the first answer; an error of another broker than this one does not count.

        :param questions: the caller's own copy, with that of this broker: other workers take answered ones out of the dict that
            they share
        """
        arrived = self._handler.Event()
        for _, sent in questions.values():
            sent.add_done_callback(lambda _: arrived.set())
        while True:
            arrived.clear()
            for other, question in list(questions.items()):
                sent = question[1]
                if sent.done:
                    questions.pop(other)
                    self._take_out(key, other, question)
                    if other is broker or sent.error is None:
                        return other, self._answer(key, sent)
            left = deadline - self._handler.now()
            if left <= 0:
                text = "no answer in time; the broker may be overloaded, or the timeout too short"
                raise ResponseTimeoutError(text, broker=broker.address, api="FindCoordinator")
            arrived.wait(left)

    def _take_out(self, key: Key, broker: Node, question: Question) -> None:
        """Forget a question that is over, unless a worker has asked the broker again since."""
        asked = self._due.get(key, {})
        if asked.get(broker) is question:
            asked.pop(broker, None)

    def _answer(self, key: Key, sent: InFlightRequest[wire.FindCoordinatorResponse]) -> wire.FindCoordinatorResponse:
        """Return an answer. One that names a coordinator ends the search: those that come later may name a former one."""
        response = sent.get()
        if response.error_code == 0:
            self.forget(key)
        return response
