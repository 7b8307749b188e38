"""The turn to read: a helper that reads nearly all answers keeps it, and the reader sleeps until it is needed."""

from __future__ import annotations

import pytest

from pykafka.exceptions import KafkaException, SocketDisconnectedError
from pykafka.handlers import Handler
from pykafka.network import turns
from pykafka.network.turns import ReadTurn


class Awaited:
    """The requests of a connection."""

    def __init__(self) -> None:
        self.error: KafkaException | None = None
        self.deadlines: list[float] = []

    def is_overdue(self, now: float) -> bool:
        return now >= min(self.deadlines, default=now + 1)

    def __len__(self) -> int:
        return len(self.deadlines)


def test_the_reader_leaves_a_helper_alone(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LASTING_GRACE_S", 0.02)
    requests = Awaited()
    turn = ReadTurn(handler, requests)
    taken = handler.Event()

    def read() -> None:
        if turn.take():
            taken.set()
            turn.release()

    assert turn.help(lasting=True)
    reader = handler.spawn(read)
    requests.deadlines.append(handler.now() + 30)
    turn.answer_due()
    assert not taken.wait(0.2)
    turn.leave()  # an answer is due that nobody reads
    assert taken.wait(1)
    assert reader.join(5)


def test_the_reader_gives_up_a_helper_that_was_interrupted(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LASTING_GRACE_S", 0.02)
    monkeypatch.setattr(turns, "READ_POLL_INTERVAL_S", 0.05)
    requests = Awaited()
    turn = ReadTurn(handler, requests)
    assert turn.help(lasting=True)
    requests.deadlines.append(handler.now() + 0.05)
    with pytest.raises(SocketDisconnectedError, match="interrupted"):
        turn.take()


def test_the_end_of_the_connection_wakes_the_reader(handler: Handler) -> None:
    requests = Awaited()
    turn = ReadTurn(handler, requests)
    assert turn.help(lasting=True)
    found: list[bool] = []
    reader = handler.spawn(lambda: found.append(turn.take()))
    handler.sleep(0.05)
    requests.error = SocketDisconnectedError("gone")
    turn.end()
    turn.leave()
    assert reader.join(5)
    assert len(found) == 1
