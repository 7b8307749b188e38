"""Logins that are renewed on connections with requests in flight (KIP-368), at a scripted broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient, Scram
from pykafka.compat import messages
from pykafka.exceptions import KafkaException, SaslAuthenticationFailed, SocketDisconnectedError, WorkerNotStartedError
from pykafka.handlers import Handler
from pykafka.handlers.base import Buffer
from pykafka.network import reauthentication
from pykafka.network.authentication import run_step
from pykafka.network.connection import BrokerConnection
from pykafka.network.in_flight import InFlightRequest, Peer
from pykafka.network.options import ConnectionSettings
from pykafka.network.requests import RequestHandler
from pykafka.protocol import wire
from pykafka.protocol.schema import encode_request
from pykafka.security import Mechanism
from pykafka.security.scram import ScramExchange
from tests.support.inside import reauthentication_of
from tests.support.sasl import USERS, SaslBroker

LIMIT = 20.0
#: Of those that ask again and again (s): a login is renewed after more than a second.
PAUSE_S = 0.005
PEER = Peer("", "test", lambda: None, lambda api, seconds: None)
ALICE = Scram("alice", USERS["alice"])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make renewals due as soon as they may be: the scripted broker takes one at any time."""
    monkeypatch.setattr(reauthentication, "RENEW_PAUSE_S", 0.0)
    monkeypatch.setattr(reauthentication, "AGAIN_S", 0.01)


@pytest.fixture
def broker() -> Iterator[SaslBroker]:
    """Yield a broker whose sessions last 600 ms."""
    with SaslBroker(lifetime_ms=600) as broker:
        yield broker


def started(broker: SaslBroker, handler: Handler, sasl: Mechanism = ALICE, **options: Any) -> RequestHandler:
    host, port = broker.hosts.split(":")
    connection = BrokerConnection(host, int(port), handler, settings=ConnectionSettings(sasl=sasl))
    connection.connect(10_000)
    requests = RequestHandler(handler, connection, **options)
    requests.start()
    return requests


def ask(requests: RequestHandler, **options: Any) -> InFlightRequest[wire.MetadataResponse]:
    sent: InFlightRequest[wire.MetadataResponse] = InFlightRequest(requests.handler, wire.MetadataRequest(), 5, PEER)
    return requests.send(sent, **{"timeout": 30.0, **options})


def decode(future: InFlightRequest[wire.MetadataResponse]) -> wire.MetadataResponse:
    answer: wire.MetadataResponse = future.get(timeout=LIMIT)
    return answer


def until(handler: Handler, done: Callable[[], object], state: Callable[[], object] = lambda: "") -> None:
    deadline = handler.now() + LIMIT
    while not done():
        assert handler.now() < deadline, state()
        handler.sleep(0.005)


def test_nothing_is_lost_under_load(broker: SaslBroker, handler: Handler) -> None:
    requests = started(broker, handler)
    answers: list[int] = []

    def load() -> None:
        while broker.renewals < 3:
            flight = [ask(requests) for _ in range(3)]
            answers.extend(decode(future).controller_id for future in flight)
            handler.sleep(0.003)

    workers = [handler.spawn(load) for _ in range(3)]
    for worker in workers:
        assert worker.join(LIMIT)
        assert worker.error is None
    assert len(answers) >= 50
    assert set(answers) == {1}
    assert broker.expired == 0
    assert broker.logins == broker.renewals + 1  # all on one connection
    requests.stop()


def test_callbacks_of_the_reader_may_begin_it(handler: Handler) -> None:
    # The end of a session is 600 ms behind its renewal: a full collection of garbage in the process of all tests takes 200.
    with SaslBroker(lifetime_ms=2000) as broker:
        requests = started(broker, handler)
        errors: list[BaseException] = []

        def again(future: InFlightRequest[Any]) -> None:
            if future.error is not None:
                errors.append(future.error)
            elif broker.renewals < 2:
                handler.sleep(PAUSE_S)
                ask(requests).add_done_callback(again)

        for _ in range(3):
            ask(requests).add_done_callback(again)
        until(
            handler,
            lambda: requests.error or (broker.renewals >= 2 and not requests.pending),
            lambda: (broker.logins, broker.renewals, broker.expired, requests.pending),
        )
        assert errors == []
        assert broker.expired == 0
        requests.stop()


def test_a_worker_that_reads_for_itself_may_begin_it(broker: SaslBroker, handler: Handler) -> None:
    requests = started(broker, handler)
    while broker.renewals < 3:
        handler.sleep(PAUSE_S)
        future = ask(requests)
        if requests.help_read():
            try:
                requests.read_until(lambda future=future: future.done)  # type: ignore[misc]
            finally:
                requests.leave()
        assert decode(future).controller_id == 1
    assert broker.expired == 0
    requests.stop()


def test_an_idle_connection_renews_its_login_before_the_next_request(broker: SaslBroker, handler: Handler) -> None:
    requests = started(broker, handler)
    assert decode(ask(requests)).controller_id == 1
    handler.sleep(0.7)  # the session is over
    assert broker.renewals == 0
    assert decode(ask(requests)).controller_id == 1
    assert (broker.renewals, broker.expired) == (1, 0)
    requests.stop()


class Thoughtful(Scram):
    """Credentials whose login takes a moment to begin.

    :param handler: supplies the moment
    """

    def __init__(self, handler: Handler) -> None:
        super().__init__("alice", USERS["alice"])
        self._handler = handler

    def begin(self, host: str) -> ScramExchange:
        self._handler.native.sleep(0.1)
        return super().begin(host)


def test_requests_wait_for_the_one_that_renews_a_session_that_is_over(broker: SaslBroker, handler: Handler) -> None:
    """The broker would hang up on them."""
    requests = started(broker, handler, sasl=Thoughtful(handler))
    handler.sleep(0.7)
    futures: list[InFlightRequest[Any]] = []
    workers = [handler.spawn(lambda: futures.append(ask(requests))) for _ in range(4)]
    for worker in workers:
        worker.join(LIMIT)
    assert [decode(future).controller_id for future in futures] == [1] * 4
    assert (broker.renewals, broker.expired) == (1, 0)
    requests.stop()


class Expired(Scram):
    """Credentials that are not fresh after the first login, until somebody waits for them."""

    fresh = True

    def prepare(self, handler: Handler, timeout: float, wanted: Callable[[], bool] = bool) -> bool:
        self.fresh = self.fresh or timeout > 0
        return self.fresh

    def begin(self, host: str) -> ScramExchange:
        if not self.fresh:
            raise SaslAuthenticationFailed("the token has expired")
        self.fresh = False
        return super().begin(host)


def test_a_session_that_is_over_waits_for_credentials(broker: SaslBroker, handler: Handler) -> None:
    requests = started(broker, handler, sasl=Expired("alice", USERS["alice"]))
    handler.sleep(0.7)
    assert decode(ask(requests)).controller_id == 1
    assert (broker.renewals, broker.expired) == (1, 0)
    requests.stop()


def test_requests_without_an_answer_wait_too(broker: SaslBroker, handler: Handler) -> None:
    requests = started(broker, handler)
    hold = threading.Event()
    broker.damage_login = lambda frame: frame if hold.wait(LIMIT) else None
    handler.sleep(0.7)
    held = [ask(requests), ask(requests, has_response=False), ask(requests)]
    assert held[1].done
    assert reauthentication_of(requests).under_way
    hold.set()
    assert decode(held[0]).controller_id == 1
    with pytest.raises(KafkaException):  # the broker answers Metadata, also where no answer is wanted
        decode(held[2])


def test_a_renewal_that_is_refused_ends_the_connection(broker: SaslBroker, handler: Handler) -> None:
    host, port = broker.hosts.split(":")
    with KafkaClient(broker.hosts, handler=handler, sasl=ALICE) as client:
        node = next(iter(client.brokers.values()))
        assert node.call(wire.MetadataRequest(), version=5).controller_id == 1
        before = dict(USERS)
        USERS["alice"] = "another"
        try:
            handler.sleep(0.7)
            pending = node.send(wire.MetadataRequest(), version=5)
            with pytest.raises(
                SocketDisconnectedError, match="could not be renewed: the broker refuses the login"
            ) as lost:
                pending.get(timeout=LIMIT)
            assert lost.value.broker == f"{host}:{port}"
            with pytest.raises(SaslAuthenticationFailed):
                node.call(wire.MetadataRequest(), version=5)
        finally:
            USERS.update(before)
        until(handler, lambda: _answers(node))


def _answers(node: Any) -> bool:
    try:
        return bool(node.call(wire.MetadataRequest(), version=5).controller_id == 1)
    except SaslAuthenticationFailed:  # for a moment: the channel pauses between attempts
        return False


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("how", ["hang up", "nonsense", "silence"])
@pytest.mark.later("threads-silence-0", "gevent-silence-1", "threads-silence-2")
def test_a_renewal_that_fails_fails_its_requests(broker: SaslBroker, handler: Handler, at: int, how: str) -> None:
    ended: list[KafkaException] = []
    requests = started(broker, handler, on_close=ended.append)
    assert decode(ask(requests)).controller_id == 1
    count, release = [0], threading.Event()

    def damage(frame: bytes) -> bytes | None:
        count[0] += 1
        if count[0] - 1 < at or (how == "silence" and release.wait(LIMIT)):
            return frame
        return None if how == "hang up" else frame[:8] + b"\xff" * (len(frame) - 8)

    broker.damage_login = damage
    handler.sleep(0.7)
    timeout = 0.2 if how == "silence" else LIMIT
    flight = [ask(requests, timeout=timeout) for _ in range(5)]
    for future in flight:
        with pytest.raises(KafkaException):
            future.get(timeout=LIMIT)
    release.set()
    until(handler, lambda: ended)
    assert isinstance(ended[0], SocketDisconnectedError)
    assert not requests.alive
    requests.stop()


def test_stopping_waits_for_the_requests_behind_a_renewal(broker: SaslBroker, handler: Handler) -> None:
    requests = started(broker, handler)
    handler.sleep(0.7)
    flight = [ask(requests) for _ in range(3)]
    requests.stop(LIMIT)
    assert [decode(future).controller_id for future in flight] == [1, 1, 1]


def test_a_renewal_that_begins_while_the_connection_is_being_closed_costs_no_answer(handler: Handler) -> None:
    """The connection takes no more requests, and that of the renewal is none of those that stop() waits for."""
    hold = threading.Event()

    def late(_: type[Any], frame: bytes) -> bytes:
        hold.wait(LIMIT)
        return frame

    with SaslBroker(lifetime_ms=60_000, damage=late) as broker:
        requests = started(broker, handler)
        flight = [ask(requests) for _ in range(3)]
        stopping = handler.spawn(requests.stop, LIMIT)
        until(handler, lambda: requests.shared.requests._closing)
        reauthentication_of(requests).due = handler.now()
        with pytest.raises(SocketDisconnectedError, match="closing the connection"):
            ask(requests).get(timeout=LIMIT)
        hold.set()
        assert [decode(future).controller_id for future in flight] == [1, 1, 1]
        assert stopping.join(LIMIT)


def test_an_interrupt_in_a_renewal_ends_the_connection(
    broker: SaslBroker, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(BaseException):
        pass

    requests = started(broker, handler)
    handler.sleep(0.7)
    step = run_step

    def interrupt(handler: Handler, mechanism: Any, fn: Callable[..., Any], *args: Any) -> Any:
        if fn.__name__ == "answered":
            raise Interrupted
        return step(handler, mechanism, fn, *args)

    monkeypatch.setattr(reauthentication, "run_step", interrupt)
    until(handler, requests.help_read)
    future = ask(requests)
    with pytest.raises(Interrupted):
        try:
            requests.read_until(lambda: future.done)
        finally:
            requests.leave()
    monkeypatch.setattr(reauthentication, "run_step", step)
    with pytest.raises(SocketDisconnectedError):
        future.get(timeout=LIMIT)
    requests.stop()


@pytest.mark.parametrize("at", ["first", "later"])
def test_an_interrupt_behind_a_request_of_a_renewal_costs_no_answer(
    broker: SaslBroker, handler: Handler, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The reader goes on with the renewal, or ends the connection: no request waits for its deadline."""

    class Interrupted(BaseException):
        pass

    requests = started(broker, handler)
    handler.sleep(0.7)
    turn = requests._writing
    leave, count = turn.leave, [0]

    def interrupt() -> None:
        leave()
        count[0] += 1
        if count[0] == 1:
            raise Interrupted

    if at == "first":
        monkeypatch.setattr(turn, "leave", interrupt)
        with pytest.raises(Interrupted):
            ask(requests)
        assert decode(ask(requests, timeout=5 * LIMIT)).controller_id == 1
        assert (broker.renewals, broker.expired) == (1, 0)
    else:
        until(handler, requests.help_read)
        future = ask(requests, timeout=5 * LIMIT)
        monkeypatch.setattr(turn, "leave", interrupt)
        with pytest.raises(Interrupted):
            try:
                requests.read_until(lambda: future.done)
            finally:
                requests.leave()
        with pytest.raises(SocketDisconnectedError):
            future.get(timeout=LIMIT)
    requests.stop()


class Failing(Scram):
    """Credentials that work once, and then fail in a way of their own.

    :param where: the method that fails
    :param error: what it raises
    """

    def __init__(self, where: str, error: Exception) -> None:
        super().__init__("alice", USERS["alice"])
        self.where = where
        self.error: Exception | None = error
        self.logins = 0

    def prepare(self, handler: Handler, timeout: float, wanted: Callable[[], bool] = bool) -> bool:
        if self.where == "prepare" and self.logins and self.error is not None:
            raise self.error
        return True

    def begin(self, host: str) -> ScramExchange:
        if self.where == "begin" and self.logins and self.error is not None:
            raise self.error
        self.logins += 1
        return super().begin(host)


@pytest.mark.parametrize("where", ["prepare", "begin"])
def test_a_mechanism_s_own_error_goes_to_the_futures(broker: SaslBroker, handler: Handler, where: str) -> None:
    requests = started(broker, handler, sasl=Failing(where, RuntimeError("the-password")))
    handler.sleep(0.7)
    with pytest.raises(SocketDisconnectedError, match="could not be renewed: .*RuntimeError") as lost:
        ask(requests).get(timeout=LIMIT)
    assert "the-password" not in str(lost.value)
    requests.stop()


def test_a_mechanism_s_own_error_at_an_answer_goes_to_the_futures(
    broker: SaslBroker, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = started(broker, handler)

    def fail(self: ScramExchange, challenge: bytes | None) -> bytes | None:
        if challenge is not None:
            raise RuntimeError
        return step(self, challenge)

    step = ScramExchange.step
    monkeypatch.setattr(ScramExchange, "step", fail)
    handler.sleep(0.7)
    with pytest.raises(SocketDisconnectedError, match="could not be renewed: .*RuntimeError"):
        ask(requests).get(timeout=LIMIT)
    requests.stop()


@pytest.mark.parametrize("where", ["prepare", "begin"])
@pytest.mark.parametrize("error", [WorkerNotStartedError("no thread"), SaslAuthenticationFailed("no"), RuntimeError()])
def test_a_session_that_holds_outlives_a_renewal_that_cannot_begin(
    handler: Handler, where: str, error: Exception
) -> None:
    with SaslBroker(lifetime_ms=60_000) as broker:
        failing = Failing(where, error)
        requests = started(broker, handler, sasl=failing)
        reauthentication_of(requests).due = handler.now()
        assert decode(ask(requests)).controller_id == 1
        failing.error = None
        until(handler, lambda: decode(ask(requests)).controller_id == 1 and broker.renewals == 1)
        requests.stop()


class Frame:
    """A request with much in it.

    :param size: how much (bytes)
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def encode(self, correlation_id: int) -> list[Buffer]:
        head = encode_request(wire.MetadataRequest(), 5, correlation_id, "test")
        frame = b"".join(head)[4:]
        return [(len(frame) + self.size).to_bytes(4, "big"), frame, bytes(self.size)]

    def throttle(self, frame: memoryview) -> None:
        """Return None: nothing is throttled."""


class Wide(SaslBroker):
    """A broker that leaves out what is behind each request, and whose answers are large."""

    size = 16 * 1024 * 1024

    def _answer(self, frame: bytes) -> bytes | None:
        answer = super()._answer(frame[: len(b"".join(encode_request(wire.MetadataRequest(), 5, 1, "test"))) - 4])
        assert answer is not None
        body = answer[4:] + bytes(self.size)
        return len(body).to_bytes(4, "big") + body


def test_a_large_answer_is_read_while_much_that_was_held_is_written(handler: Handler) -> None:
    """A broker that sends an answer reads nothing until it is read: one worker cannot do both."""
    hold = threading.Event()
    with Wide(lifetime_ms=60_000) as broker:
        requests = started(broker, handler)
        reauthentication_of(requests).due = handler.now()
        broker.damage_login = lambda frame: frame if hold.wait(LIMIT) else None
        flight = [requests.request(Frame(broker.size if at else 0), timeout=LIMIT) for at in range(3)]
        assert reauthentication_of(requests).under_way
        hold.set()
        for future in flight:
            assert len(future.get(timeout=LIMIT)) > broker.size
        assert (broker.renewals, broker.expired) == (1, 0)
        until(handler, lambda: not reauthentication_of(requests).under_way)
        requests.stop()


class Slow(Scram):
    """Credentials that are not ready at first."""

    def __init__(self, user: str, password: str) -> None:
        super().__init__(user, password)
        self.asked = 0

    def prepare(self, handler: Handler, timeout: float, wanted: Any = None) -> bool:
        """Return True when asked to wait, or for the third time."""
        self.asked += not timeout
        return timeout > 0 or self.asked >= 3


def test_credentials_that_are_not_ready_put_the_renewal_off(handler: Handler) -> None:
    with SaslBroker(lifetime_ms=3000) as broker:
        slow = Slow("alice", USERS["alice"])
        host, port = broker.hosts.split(":")
        connection = BrokerConnection(host, int(port), handler, settings=ConnectionSettings(sasl=slow))
        connection.connect(10_000)
        requests = RequestHandler(handler, connection)
        requests.start()
        reauthentication_of(requests).due = handler.now()
        until(handler, lambda: decode(ask(requests)).controller_id == 1 and broker.renewals == 1)
        assert slow.asked == 3
        requests.stop()


def test_a_connection_without_a_reader_connects_anew(broker: SaslBroker, handler: Handler) -> None:
    host, port = broker.hosts.split(":")
    with BrokerConnectionOf(host, int(port), handler) as connection:
        for _ in range(3):
            connection.request(messages.MetadataRequest())
            assert len(connection.response()) > 20
            handler.sleep(0.45)
            assert connection.login_due
    assert (broker.logins, broker.renewals, broker.expired) == (3, 0, 0)


class BrokerConnectionOf:
    """A connection during the `with` block, logged in."""

    def __init__(self, host: str, port: int, handler: Handler) -> None:
        self._connection = BrokerConnection(host, port, handler, settings=ConnectionSettings(sasl=ALICE))

    def __enter__(self) -> BrokerConnection:
        self._connection.connect(10_000)
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.disconnect()
