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
            self._send(broker, key, asked, deadline)
        try:
            return self._first_answer(broker, key, asked, deadline)
        except ResponseTimeoutError:
            raise
        except SocketDisconnectedError:
            if not was_up:
                raise
        self._send(broker, key, asked, deadline)  # that connection may have been closed while it was idle
        return self._first_answer(broker, key, asked, deadline)

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

    def _send(self, broker: Node, key: Key, asked: dict[Node, Question], deadline: float) -> None:
        name, kind = key
        request = wire.FindCoordinatorRequest(key=name, key_type=kind)
        at = self._handler.now()
        asked[broker] = at, broker.send(request, CHANNEL, ceiling=SINGLE_MAX, until=deadline)

    def _first_answer(
        self, broker: Node, key: Key, asked: dict[Node, Question], deadline: float
    ) -> tuple[Node, wire.FindCoordinatorResponse]:
        """Return the first answer; an error of another broker than this one does not count."""
        questions = asked.copy()
        arrived = self._handler.Event()
        for _, sent in questions.values():
            sent.add_done_callback(lambda _: arrived.set())
        while True:
            arrived.clear()
            for one, (_, sent) in list(questions.items()):
                if sent.done:
                    questions.pop(one)
                    asked.pop(one, None)
                    if one is broker or sent.error is None:
                        return one, sent.get()
            left = deadline - self._handler.now()
            if left <= 0:
                text = "no answer in time; the broker may be overloaded, or the timeout too short"
                raise ResponseTimeoutError(text, broker=broker.address, api="FindCoordinator")
            arrived.wait(left)
