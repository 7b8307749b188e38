"""Logins over new connections, at a scripted broker."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from pykafka import DelegationToken, KafkaClient, OAuthBearer, Plain, Scram
from pykafka.exceptions import (
    CorrelationIdError,
    IllegalSaslState,
    KafkaException,
    NoBrokersAvailableError,
    ResponseTimeoutError,
    SaslAuthenticationFailed,
    SaslRequiredError,
    SocketDisconnectedError,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from pykafka.handlers import Handler
from pykafka.network.authentication import TOKENS_MAX
from pykafka.network.connection import BrokerConnection
from pykafka.network.options import ConnectionSettings
from pykafka.protocol import wire
from pykafka.security.mechanism import Credentials
from tests.support.sasl import MECHANISMS, NEW, OLD, USERS, Cut, SaslBroker
from tests.support.scripted import TOPIC, ScriptedBroker

JWT = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJtZSJ9.c2ln"
GOOD: list[Any] = [
    Plain("alice", USERS["alice"]),
    Scram("alice", USERS["alice"]),
    Scram("bob", USERS["bob"], "SCRAM-SHA-256"),
]
BAD: list[Any] = [
    Plain("alice", "wrong-secret"),
    Scram("nobody", "wrong-secret"),
    DelegationToken("id", "wrong-secret"),
]


def connection(broker: ScriptedBroker, handler: Handler, sasl: Any) -> BrokerConnection:
    host, port = broker.hosts.split(":")
    return BrokerConnection(host, int(port), handler, settings=ConnectionSettings(sasl=sasl), client_id="login-test")


@pytest.mark.parametrize("apis", [OLD, NEW], ids=["old", "new"])
@pytest.mark.parametrize("sasl", GOOD, ids=repr)
def test_a_client_logs_in(handler: Handler, sasl: Any, apis: dict[Any, int]) -> None:
    with SaslBroker(apis=apis) as broker:
        with KafkaClient(broker.hosts, handler=handler, sasl=sasl) as client:
            assert list(client.topics) == [TOPIC]
        assert broker.logins == 1


@pytest.mark.parametrize("apis", [OLD, NEW], ids=["old", "new"])
@pytest.mark.parametrize("sasl", BAD, ids=repr)
def test_wrong_credentials_are_an_error_by_name_at_once(handler: Handler, sasl: Any, apis: dict[Any, int]) -> None:
    with SaslBroker(apis=apis) as broker:
        with pytest.raises(SaslAuthenticationFailed) as refused:
            KafkaClient(broker.hosts, handler=handler, sasl=sasl)
        assert refused.value.broker == broker.hosts
        assert [attempt.stage for attempt in refused.value.ledger] == ["SASL"]
        assert sasl.remedy in str(refused.value)
        assert "wrong-secret" not in f"{refused.value!r}{refused.value.ledger}{refused.value.__cause__}"


def test_the_broker_s_words_are_in_the_error(handler: Handler) -> None:
    with SaslBroker() as broker:
        with pytest.raises(SaslAuthenticationFailed, match="Invalid username or password") as refused:
            connection(broker, handler, BAD[0]).connect(5000, attempts=3)
        assert refused.value.api == "SaslAuthenticate"
        assert len(refused.value.ledger) == 1  # no attempt more: brokers count them


@pytest.mark.parametrize("error_code", [58, 42])
def test_a_broker_that_repeats_the_secret_shows_it_to_nobody(handler: Handler, error_code: int) -> None:
    def repeat(frame: bytes) -> bytes:
        said = f"no user alice with password wrong-secret, nor {JWT}"
        response = wire.SaslAuthenticateResponse(error_code=error_code, error_message=said)
        body = frame[4:8] + b"\0" + response.encode(2)
        return len(body).to_bytes(4, "big") + body

    for sasl in (Plain("alice", "wrong-secret"), OAuthBearer("wrong-secret")):
        with SaslBroker(dict.fromkeys(("PLAIN", "OAUTHBEARER"), lambda: lambda token: b"")) as broker:
            answers = iter([False, False, True])
            broker.damage_login = lambda frame, answers=answers: repeat(frame) if next(answers) else frame  # type: ignore[misc]
            with pytest.raises(KafkaException, match=r"user alice with password \[secret\], nor \[token\]") as refused:
                connection(broker, handler, sasl).connect(5000)
            told = f"{refused.value!r}{refused.value.ledger}{refused.value.__cause__}"
            assert "wrong-secret" not in told
            assert JWT not in told


def test_a_mechanism_that_the_broker_does_not_offer(handler: Handler) -> None:
    offered = {"PLAIN": MECHANISMS["PLAIN"], "GSSAPI": MECHANISMS["PLAIN"]}
    with SaslBroker(offered) as broker:
        with pytest.raises(
            UnsupportedSaslMechanism, match="does not offer SCRAM-SHA-512 here; it offers: GSSAPI, PLAIN"
        ):
            KafkaClient(broker.hosts, handler=handler, sasl=GOOD[1])


def test_a_listener_without_sasl_is_named(handler: Handler) -> None:
    def illegal(frame: bytes) -> bytes:
        body = frame[4:8] + wire.SaslHandshakeResponse(error_code=34).encode(1)
        return len(body).to_bytes(4, "big") + body

    with SaslBroker() as broker:
        answers = iter([False, True])
        broker.damage_login = lambda frame: illegal(frame) if next(answers) else frame
        with pytest.raises(IllegalSaslState, match="takes no login by SASL") as refused:
            connection(broker, handler, GOOD[0]).connect(5000)
        assert refused.value.api == "SaslHandshake"


def test_a_broker_without_any_login_is_named(handler: Handler) -> None:
    with ScriptedBroker() as broker:
        with pytest.raises(UnsupportedVersion, match="Kafka 0.10 or later"):
            connection(broker, handler, GOOD[0]).connect(5000)


@pytest.mark.parametrize("apis", [OLD, NEW], ids=["old", "new"])
@pytest.mark.parametrize("sasl", GOOD[:2], ids=repr)
def test_a_connection_cut_at_any_byte_ends_the_login(handler: Handler, sasl: Any, apis: dict[Any, int]) -> None:
    with SaslBroker(apis=apis) as broker:
        sizes: list[int] = []

        def measure(frame: bytes) -> bytes:
            sizes.append(len(frame))
            return frame

        broker.damage_login = measure
        connection(broker, handler, sasl).connect(5000)
        for answer, size in enumerate(sizes):
            for cut in sorted({*range(0, size, 1 + size // 12), size - 1}):
                seen: list[None] = []

                def damage(frame: bytes, answer: int = answer, cut: int = cut, seen: list[None] = seen) -> bytes:
                    seen.append(None)
                    if len(seen) - 1 < answer:
                        return frame
                    raise Cut(frame[:cut])

                broker.damage_login = damage
                with pytest.raises(KafkaException) as lost:
                    connection(broker, handler, sasl).connect(5000)
                stages = [attempt.stage for attempt in lost.value.ledger]
                assert set(stages) == {"SASL"}
                assert len(stages) == 1 or not cut  # it asked again in lower versions, as nothing had come
                assert isinstance(lost.value, (SocketDisconnectedError, SaslAuthenticationFailed))


@pytest.mark.parametrize(
    "nonsense", [b"", b"\0", b"\0\0\0\1", b"\0\0\0\1\0\x63", b"\0\0\0\x09" + bytes(40), bytes(2000)]
)
@pytest.mark.parametrize("at", range(4))
def test_nonsense_ends_the_login(handler: Handler, at: int, nonsense: bytes) -> None:
    with SaslBroker() as broker:
        count = [0]

        def damage(frame: bytes) -> bytes:
            count[0] += 1
            return frame if count[0] - 1 < at else len(nonsense).to_bytes(4, "big") + nonsense

        broker.damage_login = damage
        with pytest.raises(KafkaException) as ended:
            connection(broker, handler, GOOD[1]).connect(2000)
        assert not isinstance(ended.value, ResponseTimeoutError)


def test_an_answer_to_something_else_is_refused(handler: Handler) -> None:
    with SaslBroker() as broker:
        broker.damage_login = lambda frame: frame[:7] + b"\x07" + frame[8:]
        with pytest.raises(CorrelationIdError):
            connection(broker, handler, GOOD[0]).connect(2000)


def test_a_broker_that_never_has_enough_is_left(handler: Handler) -> None:
    class Chatty(Credentials):
        name = "PLAIN"
        waits = False
        remedy = ""
        complete = False

        def begin(self, host: str) -> Any:
            return self

        def step(self, challenge: bytes | None) -> bytes:
            return b"\0alice\0" + USERS["alice"].encode()

    with SaslBroker() as broker:
        broker.endless = True
        with pytest.raises(SaslAuthenticationFailed, match=f"more than {TOKENS_MAX} tokens"):
            connection(broker, handler, Chatty()).connect(5000)


def test_a_login_without_an_answer_ends_with_the_connect_s_deadline(handler: Handler) -> None:
    with SaslBroker() as broker:
        release = threading.Event()
        broker.damage_login = lambda frame: frame if release.wait(20) else None
        started = time.monotonic()
        with pytest.raises(SocketDisconnectedError, match="login by PLAIN was not answered within") as late:
            connection(broker, handler, GOOD[0]).connect(300)
        release.set()
        assert isinstance(late.value, TimeoutError)
        assert time.monotonic() - started < 10


def test_a_login_is_ended_by_give_up(handler: Handler) -> None:
    with SaslBroker() as broker:
        asked, release = threading.Event(), threading.Event()

        def damage(frame: bytes) -> bytes | None:
            asked.set()
            return frame if release.wait(20) else None

        broker.damage_login = damage
        making = connection(broker, handler, GOOD[1])
        errors: list[BaseException] = []

        def connect() -> None:
            try:
                making.connect(30_000)
            except KafkaException as error:
                errors.append(error)

        worker = handler.spawn(connect)
        while not asked.is_set():
            handler.sleep(0.01)
        making.give_up()
        assert worker.join(10)
        release.set()
        assert "given up" in str(errors[0])


def test_an_interrupt_closes_the_connection(handler: Handler) -> None:
    class Interrupted(BaseException):
        pass

    class Interrupting(Plain):
        def begin(self, host: str) -> Any:
            raise Interrupted

    with SaslBroker() as broker:
        made = connection(broker, handler, Interrupting("alice", "x"))
        with pytest.raises(Interrupted):
            made.connect(5000)
        assert broker.left.wait(10)


def test_a_hang_up_never_means_an_old_broker(handler: Handler) -> None:
    with SaslBroker() as broker:
        broker.damage_login = lambda frame: None
        with pytest.raises(NoBrokersAvailableError) as none:
            KafkaClient(broker.hosts, handler=handler, sasl=GOOD[0], broker_version="0.8.2")
        assert "login by PLAIN" in str(none.value)


def test_the_client_s_name_and_the_session(handler: Handler) -> None:
    with SaslBroker(lifetime_ms=60_000) as broker:
        made = connection(broker, handler, GOOD[1])
        assert connection(broker, handler, GOOD[1]).session is None
        before = handler.now()
        made.connect(5000)
        assert made.session is not None
        assert made.session.mechanism is GOOD[1]
        assert made.session.ends_at - made.session.renew_at > 2
        assert before + 0.85 * 60 <= made.session.renew_at <= handler.now() + 0.95 * 60
        made.disconnect()
        assert broker.client_ids == {"login-test"}


@pytest.mark.parametrize("apis", [OLD, NEW], ids=["old", "new"])
def test_a_client_without_credentials_is_told_what_the_listener_offers(handler: Handler, apis: dict[Any, int]) -> None:
    with SaslBroker(apis=apis) as broker:
        with pytest.raises(SaslRequiredError) as refused:
            KafkaClient(broker.hosts, handler=handler)
        assert str(refused.value).startswith(
            "this listener wants SASL; mechanisms offered: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; give KafkaClient sasl="
        )
        assert refused.value.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert refused.value.broker == broker.hosts
        assert [attempt.stage for attempt in refused.value.ledger] == ["ApiVersions"]


@pytest.mark.parametrize("value", ["secret", ("user", "secret"), Plain, object()])
def test_what_is_no_mechanism_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="sasl must be a mechanism") as refused:
        KafkaClient("127.0.0.1:1", sasl=value)
    assert "secret" not in str(refused.value)


class Half:
    """A mechanism of a user's own, of an earlier kind."""

    name = "PLAIN"
    waits = False

    def begin(self, host: str) -> Any:
        """Begin nothing."""


def test_a_mechanism_that_lacks_a_member_is_refused_by_its_name() -> None:
    for lacking, members in (("prepare", {}), ("remedy", {"prepare": Credentials.prepare})):
        value: Any = type("Half", (Half,), members)()
        with pytest.raises(TypeError, match=f"sasl must be a mechanism, and Half lacks '{lacking}'"):
            KafkaClient("127.0.0.1:1", sasl=value)


def test_a_session_that_is_too_short_for_a_request_is_named(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client guessed that the broker was shutting down, or wanted TLS or SASL."""

    def over(_: object) -> bool:
        time.sleep(0.01)
        return True

    monkeypatch.setattr("tests.support.sasl._ServedLogin.over", property(over))
    with (
        SaslBroker(lifetime_ms=1) as broker,
        pytest.raises(NoBrokersAvailableError, match="max.reauth.ms of the broker"),
    ):
        KafkaClient(broker.hosts, handler=handler, sasl=GOOD[1])
