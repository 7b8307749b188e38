"""RequestHandler: many requests in flight on one connection, and an error for each when it ends."""

from __future__ import annotations

import gc
import logging
import math
import os
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from pykafka.connection import BrokerConnection, SslConfig
from pykafka.exceptions import CorrelationIdError, KafkaException, ResponseTimeoutError, SocketDisconnectedError
from pykafka.handlers import Handler, RequestHandler, ResponseFuture
from pykafka.network import turns
from tests.support.certs import Pems
from tests.support.inside import worker_of
from tests.support.peers import HOST, Ask

LIMIT = 10.0
Start = Callable[..., RequestHandler]


@pytest.fixture
def start(handler: Handler, peers: dict[str, int], pems: Pems) -> Iterator[Start]:
    """Yield a function that connects to a peer and starts a request handler."""
    made: list[weakref.ref[RequestHandler]] = []

    def start(peer: str = "broker", **kwargs: Any) -> RequestHandler:
        config = SslConfig(pems.path("ca.pem")) if peer.startswith("tls") else None
        connection = BrokerConnection(HOST, peers[peer], handler, ssl_config=config)
        connection.connect(10_000)
        requests = RequestHandler(handler, connection, **kwargs)
        requests.start()
        made.append(weakref.ref(requests))
        return requests

    yield start
    for reference in made:
        requests = reference()
        if requests is not None:
            requests.stop()
            assert worker_of(requests) is not None
            assert not worker_of(requests).is_alive()


def _size(future: ResponseFuture) -> int:
    return len(future.get(timeout=LIMIT)) - 4


@pytest.mark.parametrize("peer", ["broker", "tls_broker"])
def test_many_in_flight(start: Start, peer: str) -> None:
    requests = start(peer)
    sizes = [0, 5, 100_000, 3, 1_000_000, 1]
    futures = [requests.request(Ask(size=size)) for size in sizes]
    assert [_size(future) for future in futures] == sizes
    assert requests.pending == 0
    assert requests.alive
    assert requests.error is None


def test_requests_do_not_wait_for_answers(start: Start, handler: Handler) -> None:
    requests = start()
    started = handler.now()
    slow = requests.request(Ask(delay=0.3))
    fast = requests.request(Ask(size=1))
    assert handler.now() - started < 0.25
    assert requests.pending == 2
    assert "2 pending" in repr(requests)
    assert not fast.done
    assert _size(slow) == 0
    assert _size(fast) == 1


@pytest.mark.parametrize("peer", ["broker", "tls_broker"])
def test_many_workers_on_one_connection(start: Start, handler: Handler, peer: str) -> None:
    requests = start(peer)
    found: list[bool] = []

    def work(number: int) -> None:
        for turn in range(20):
            size = number * 1000 + turn
            found.append(_size(requests.request(Ask(size=size))) == size)

    workers = [handler.spawn(work, number) for number in range(8)]
    assert all(worker.join(20) for worker in workers)
    assert found == [True] * 160


def test_whoever_waits_may_read(start: Start, handler: Handler) -> None:
    requests = start()
    helped = 0
    for turn in range(30):
        helps = requests.help_read()
        before = requests.request(Ask(size=3))
        future = requests.request(Ask(size=turn))
        behind = requests.request(Ask(size=2))
        if helps:
            helped += 1
            requests.read_until(lambda future=future: future.done)  # type: ignore[misc]
            assert before.done
            requests.leave()  # the reader takes over what is left
        assert [_size(one) for one in (future, before, behind)] == [turn, 3, 2]
    assert helped
    handler.sleep(0.3)  # the reader watches the connection again
    assert _size(requests.request(Ask(size=1))) == 1


def test_a_helper_is_told_when_the_connection_ends(start: Start, handler: Handler) -> None:
    requests = start()
    helps = requests.help_read()
    if not helps:  # the reader was first: it leaves the next turn to us
        assert _size(requests.request(Ask(size=1))) == 1
        while not requests.help_read():
            handler.sleep(0.01)
    kept, cut = requests.request(Ask(size=1)), requests.request(Ask(close=True))
    requests.read_until(lambda: cut.done)
    requests.leave()
    assert _size(kept) == 1
    with pytest.raises(SocketDisconnectedError):
        cut.get(timeout=LIMIT)
    assert not requests.alive


def test_stopping_from_a_helpers_callback(start: Start, handler: Handler) -> None:
    requests = start()
    while not requests.help_read():
        handler.sleep(0.01)
    future = requests.request(Ask(size=1))
    future.add_done_callback(lambda _: requests.stop())
    started = handler.now()
    requests.read_until(lambda: False)
    requests.leave()
    assert handler.now() - started < 3
    assert not requests.alive


def test_documented_requests(start: Start) -> None:
    class Documented:
        def get_bytes(self) -> bytes:
            return Ask(size=9).get_bytes()

    requests = start()
    assert _size(requests.request(Documented())) == 9
    frame = requests.request(Documented()).get(timeout=LIMIT)
    assert int.from_bytes(frame[:4], "big") == 2


def test_no_response_expected(start: Start) -> None:
    requests = start()
    future = requests.request(Ask(silent=True), has_response=False)
    assert future.done
    assert future.get() is None
    assert requests.pending == 0
    assert _size(requests.request(Ask(size=4))) == 4


def test_a_bad_request_concerns_its_future_only(start: Start) -> None:
    class Bad:
        def encode(self, correlation_id: int) -> list[bytes]:
            raise LookupError(f"no such field in {correlation_id}")

    requests = start()
    before = requests.request(Ask(size=1, delay=0.05))
    bad = requests.request(Bad())
    after = requests.request(Ask(size=2))
    with pytest.raises(LookupError, match="no such field"):
        bad.get(timeout=LIMIT)
    assert (_size(before), _size(after)) == (1, 2)


# -- when it ends ------------------------------------------------------------------------------------------------------


def _fails(future: ResponseFuture, error: type[KafkaException], text: str, where: str) -> None:
    with pytest.raises(error, match=text) as caught:
        future.get(timeout=LIMIT)
    assert where in str(caught.value)


def _wait(handler: Handler, until: Callable[[], bool]) -> None:
    deadline = handler.now() + LIMIT
    while not until():
        assert handler.now() < deadline
        handler.sleep(0.01)


def test_the_deadline_of_a_request(start: Start, handler: Handler) -> None:
    closed: list[KafkaException] = []
    requests = start(on_close=closed.append)
    where = requests.shared.connection.address
    started = handler.now()
    late = requests.request(Ask(silent=True), timeout=0.1)
    behind = requests.request(Ask(silent=True), timeout=30)
    _fails(late, ResponseTimeoutError, "no answer in time", where)
    # The reader looks up once a second when it did not know of the deadline before it began to read.
    assert handler.now() - started < 3
    _fails(behind, SocketDisconnectedError, "given up after 1 of its requests", where)
    assert not requests.alive
    assert isinstance(requests.error, SocketDisconnectedError)
    assert [type(error) for error in closed] == [SocketDisconnectedError]
    _fails(requests.request(Ask()), SocketDisconnectedError, "given up", where)


def test_a_deadline_passes_while_other_answers_come(start: Start, handler: Handler) -> None:
    requests = start()
    before = [requests.request(Ask(size=10, delay=0.02)) for _ in range(500)]
    late = requests.request(Ask(size=10), timeout=0.3)
    _fails(late, ResponseTimeoutError, "no answer in time", requests.shared.connection.address)
    assert not before[-1].done or before[-1].error is not None


def test_an_answer_out_of_its_turn_is_believed_by_nobody(start: Start) -> None:
    """It was taken for that of another request under way, so that what was not done yet was told as done."""
    requests = start()
    due = requests.request(Ask(silent=True))
    behind = requests.request(Ask(size=10))
    for future in (due, behind):
        _fails(future, CorrelationIdError, "request 2 came where one to request 1 was due", "127.0.0.1")
    assert not requests.alive


def test_getting_may_give_up_before_the_request_does(start: Start) -> None:
    requests = start()
    future = requests.request(Ask(delay=0.3, size=1))
    with pytest.raises(ResponseTimeoutError):
        future.get(timeout=0.01)
    assert requests.alive
    assert _size(future) == 1


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        ({"close": True}, SocketDisconnectedError, "closed the connection"),
        ({"size": 100_000, "cut": 1000}, SocketDisconnectedError, "mid-answer"),
        ({"number": 77}, CorrelationIdError, "of 4 bytes to request 77 came, which this client has not sent"),
        ({"raw": "000000020001"}, CorrelationIdError, "of 2 bytes"),
        ({"raw": b"HTTP/1.1 ".hex()}, SocketDisconnectedError, "no Kafka broker"),
        ({"raw": "ffffffff"}, SocketDisconnectedError, "of -1 bytes"),
    ],
)
def test_the_end_of_the_connection_is_everybodys_error(
    start: Start, handler: Handler, answer: dict[str, Any], error: type[KafkaException], text: str
) -> None:
    requests = start()
    where = requests.shared.connection.address
    first = requests.request(Ask(size=1))
    futures = [requests.request(Ask(**answer)), requests.request(Ask()), requests.request(Ask())]
    assert _size(first) == 1
    for future in futures:
        _fails(future, error, text, where)
    assert len({id(future.error) for future in futures}) == 3
    _wait(handler, lambda: not requests.alive)
    _fails(requests.request(Ask()), error, text, where)
    assert requests.pending == 0


def test_a_broken_write_is_everybodys_error(start: Start) -> None:
    requests = start("silent")
    where = requests.shared.connection.address

    class Large:
        def encode(self, correlation_id: int) -> list[bytes]:
            return [bytes(32_000_000)]

    waiting = requests.request(Ask())
    # Whoever notices first, writer or reader.
    _fails(requests.request(Large(), timeout=0.2), KafkaException, "did not take a request|no answer in time", where)
    _fails(waiting, SocketDisconnectedError, "did not take a request|given up after 1", where)
    assert not requests.alive


def test_a_writer_that_is_stuck_does_not_hold_others_up(start: Start, handler: Handler) -> None:
    requests = start("silent")

    class Large:
        def encode(self, correlation_id: int) -> list[bytes]:
            return [bytes(32_000_000)]

    worker = handler.spawn(requests.request, Large(), timeout=1.0)
    handler.sleep(0.1)
    started = handler.now()
    future = requests.request(Ask(), timeout=0.1)
    assert handler.now() - started < 0.9
    _fails(
        future,
        ResponseTimeoutError,
        "other workers wrote requests until the deadline",
        requests.shared.connection.address,
    )
    assert worker.join(5)


def test_a_turn_to_write_that_nobody_gives_back_ends_the_connection(
    start: Start, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a thread that had just taken it: nothing was written on the connection any more, and no other was made."""
    monkeypatch.setattr(turns, "LOST_TURN_S", 8.0)
    requests = start()
    assert _size(requests.request(Ask(size=1))) == 1
    requests._writing._lock.acquire()
    where, started = requests.shared.connection.address, handler.now()
    for _ in range(2):  # each caller alone has less time than it takes to be sure
        _fails(requests.request(Ask(), timeout=0.7), ResponseTimeoutError, "wrote requests until the deadline", where)
    _fails(
        requests.request(Ask(), timeout=60),
        SocketDisconnectedError,
        "was interrupted before it wrote its request",
        where,
    )
    assert handler.now() - started < 30
    assert not requests.alive
    assert not requests.shared.connection.connected


def test_a_worker_that_takes_its_time_to_begin_keeps_the_connection(start: Start, handler: Handler) -> None:
    """With a thousand threads it waits for the interpreter; when the connection was ended for it, all connected anew."""
    requests = start()
    answers: list[int] = []
    requests._writing._lock.acquire()
    worker = handler.spawn(lambda: answers.append(_size(requests.request(Ask(size=3), timeout=60))))
    handler.sleep(2.5)
    requests._writing.leave()
    assert worker.join(LIMIT)
    assert answers == [3]
    assert requests.alive


def test_a_writer_that_is_interrupted_ends_the_connection(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = start()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    waiting = requests.request(Ask(silent=True))
    monkeypatch.setattr(requests.shared.connection, "send", interrupted)
    with pytest.raises(KeyboardInterrupt):
        requests.request(Ask())
    _fails(waiting, SocketDisconnectedError, "closed by this client", requests.shared.connection.address)


def test_a_writer_that_is_interrupted_before_it_writes_what_is_in_the_table_ends_the_connection(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests behind it would be answered before it, and fail as if a proxy had mixed answers up."""

    class Interrupted:
        """The step between the table and the write."""

        due = math.inf

        @property
        def under_way(self) -> bool:
            raise KeyboardInterrupt

    requests = start()
    waiting = requests.request(Ask(silent=True))
    monkeypatch.setattr(requests, "_reauthentication", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        requests.request(Ask())
    _fails(waiting, SocketDisconnectedError, "closed by this client", requests.shared.connection.address)


def test_a_writer_that_is_interrupted_as_it_leaves_gives_the_turn_to_the_next(start: Start) -> None:
    """Python checks for Ctrl-C at the entry of each function."""
    requests = start()
    requests.request(Ask()).get(timeout=LIMIT)
    written: list[FrameType] = []

    def interrupt(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code is BrokerConnection.send.__code__:
            written.append(frame)
        elif event == "call" and written:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):  # compiled, there is no such function
        sys.setprofile(interrupt)
        try:
            requests.request(Ask())
        finally:
            sys.setprofile(None)
    assert _size(requests.request(Ask(size=3), timeout=LIMIT)) == 3


def test_callbacks_may_send(start: Start) -> None:
    requests = start()
    second: list[ResponseFuture] = []
    first = requests.request(Ask(delay=0.05))
    first.add_done_callback(lambda _: second.append(requests.request(Ask(size=3))))
    first.get(timeout=LIMIT)
    _wait(requests.handler, lambda: bool(second))
    assert _size(second[0]) == 3


def test_on_close(start: Start, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    def unlucky(error: KafkaException) -> None:
        raise LookupError("in on_close")

    requests = start(on_close=unlucky)
    with caplog.at_level(logging.ERROR, logger="pykafka"):
        requests.request(Ask(close=True))
        _wait(handler, lambda: "in on_close" in caplog.text)
    assert not requests.alive


# -- stopping ----------------------------------------------------------------------------------------------------------


def test_stop_lets_answers_arrive(start: Start) -> None:
    requests = start()
    futures = [requests.request(Ask(delay=0.1, size=size)) for size in range(3)]
    requests.stop(timeout=5)
    assert [_size(future) for future in futures] == [0, 1, 2]
    assert not requests.alive
    where = requests.shared.connection.address
    _fails(requests.request(Ask()), SocketDisconnectedError, "closed by this client", where)
    requests.stop()


def test_stop_waits_no_longer_than_told(start: Start, handler: Handler) -> None:
    requests = start()
    future = requests.request(Ask(silent=True))
    started = handler.now()
    requests.stop(timeout=0.1)
    assert handler.now() - started < 2
    _fails(future, SocketDisconnectedError, "closed by this client", requests.shared.connection.address)


def test_nothing_new_is_sent_while_it_stops(start: Start, handler: Handler) -> None:
    requests = start()
    requests.request(Ask(delay=0.3))
    worker = handler.spawn(requests.stop, 5)
    handler.sleep(0.05)
    _fails(requests.request(Ask()), SocketDisconnectedError, "sends nothing more", "")
    assert worker.join(5)


def test_stop_in_a_callback(start: Start, handler: Handler) -> None:
    requests = start()
    future = requests.request(Ask(delay=0.05))
    waiting = requests.request(Ask(silent=True))
    future.add_done_callback(lambda _: requests.stop())
    _fails(waiting, SocketDisconnectedError, "closed by this client", requests.shared.connection.address)
    _wait(handler, lambda: worker_of(requests) is not None and not worker_of(requests).is_alive())


def test_stop_when_the_reader_has_died(start: Start, handler: Handler) -> None:
    class Dies(Ask):
        def throttle(self, _: Any) -> None:
            raise LookupError("a bug in the reader")

    requests = start()
    future = requests.request(Dies(delay=0.1))
    _fails(future, SocketDisconnectedError, "reader has ended", requests.shared.connection.address)
    _wait(handler, lambda: worker_of(requests) is not None and not worker_of(requests).is_alive())
    assert isinstance(worker_of(requests) and worker_of(requests).error, LookupError)
    started = handler.now()
    requests.stop(timeout=5)
    assert handler.now() - started < 1


def test_stop_before_start(handler: Handler, peers: dict[str, int]) -> None:
    connection = BrokerConnection(HOST, peers["broker"], handler)
    connection.connect(10_000)
    requests = RequestHandler(handler, connection)
    assert not requests.alive
    future = requests.request(Ask())
    requests.stop()
    _fails(future, SocketDisconnectedError, "closed by this client", connection.address)


def test_what_was_sent_before_start_is_answered(handler: Handler, peers: dict[str, int]) -> None:
    connection = BrokerConnection(HOST, peers["broker"], handler)
    connection.connect(10_000)
    requests = RequestHandler(handler, connection)
    future = requests.request(Ask(size=2))
    requests.start()
    requests.start()
    assert _size(future) == 2
    requests.stop()


def test_dropping_it_ends_the_reader(start: Start, handler: Handler) -> None:
    requests = start()
    future = requests.request(Ask(silent=True))
    worker, gone, where = worker_of(requests), weakref.ref(requests), requests.shared.connection.address
    assert worker is not None
    del requests
    gc.collect()
    assert gone() is None
    assert worker.join(5)
    _fails(future, SocketDisconnectedError, "closed by this client", where)


def test_on_close_does_not_keep_its_owner(handler: Handler, start: Start) -> None:
    class Owner:
        def __init__(self) -> None:
            self.requests = start(on_close=self.closed)

        def closed(self, error: KafkaException) -> None:
            """Take the error."""

    owner = Owner()
    worker, gone = worker_of(owner.requests), weakref.ref(owner)
    assert worker is not None
    del owner
    gc.collect()
    assert gone() is None
    assert worker.join(5)


def test_the_end_of_the_connection_does_not_keep_the_helper_that_met_it(start: Start, handler: Handler) -> None:
    requests = start()

    def meet() -> weakref.ref[ResponseFuture]:
        while not requests.help_read():
            handler.sleep(0.01)
        future = requests.request(Ask(raw="000000020001"))
        requests.read_until(lambda: future.done)
        requests.leave()
        with pytest.raises(CorrelationIdError):
            future.get()
        return weakref.ref(future)

    met = meet()
    gc.collect()
    assert met() is None


def test_documented_names(start: Start) -> None:
    requests = start()
    assert requests.shared._fields == ("connection", "requests", "ending")
    task = RequestHandler.Task("request", "future")  # type: ignore[arg-type]
    assert task._asdict() == {"request": "request", "future": "future"}
    assert isinstance(requests.shared, RequestHandler.Shared)
    assert requests._start_thread.__doc__ is None or requests._start_thread.__doc__


# -- after fork() ------------------------------------------------------------------------------------------------------


def test_a_forked_child_leaves_the_parents_connection_alone(start: Start) -> None:
    requests = start()
    waiting = requests.request(Ask(delay=0.5, size=6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child of a process with threads does next to nothing
        pid = os.fork()
    if pid == 0:
        os._exit(_in_child(requests))
    assert _exit_code(pid) == 17
    assert _size(waiting) == 6
    assert _size(requests.request(Ask(size=5))) == 5


def _in_child(requests: RequestHandler) -> int:
    try:
        assert not requests.alive
        assert not requests.shared.connection.connected
        error = requests.request(Ask()).error
        assert "forked" in str(error)
        started = time.monotonic()
        requests.stop()
        assert time.monotonic() - started < 0.5
        del requests
        gc.collect()
    except BaseException as error:  # noqa: BLE001 - nothing may get out of the child
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        return 18
    return 17


def _exit_code(pid: int) -> int:
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    raise AssertionError("the child hangs")
