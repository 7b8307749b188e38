"""Logins, request by request: fake brokers answer as real ones do."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.exceptions import SocketDisconnectedError
from pykafka.protocol import wire
from pykafka.security import Mechanism, Plain, Scram
from pykafka.testing import FakeCluster, Sasl
from tests.brokers import KafkaCluster
from tests.testing.connection import LIMIT, Connection, connected, handler

pytestmark = [pytest.mark.kafka, pytest.mark.needs("sessions")]

_VERSIONS = wire.ApiVersionsRequest(client_software_name="a", client_software_version="1")


def end(connection: Connection) -> str:
    """Return whether the broker ends the connection, or answers."""
    try:
        connection.read()
    except (SocketDisconnectedError, ConnectionResetError):
        return "cut"
    return "answered"


def handshake(connection: Connection, mechanism: str = "PLAIN") -> list[Any]:
    answer = connection.ask(wire.SaslHandshakeRequest(mechanism=mechanism))
    return ["handshake", answer.error_code, sorted(answer.mechanisms)]


def exchange(connection: Connection, login: Mechanism) -> list[Any]:
    """Log in until the end, or the first error, and return the last answer."""
    steps = login.begin("localhost")
    challenge: bytes | None = None
    answer = wire.SaslAuthenticateResponse()
    while (token := steps.step(challenge)) is not None:
        answer = connection.ask(wire.SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code or steps.complete:
            break
        challenge = bytes(answer.auth_bytes)
        if not challenge:
            break
    return ["login", answer.error_code, answer.error_message, answer.session_lifetime_ms]


def too_early(connection: Connection, users: dict[str, str]) -> list[Any]:
    connection.send(wire.MetadataRequest())
    return [end(connection)]


def versions_twice(connection: Connection, users: dict[str, str]) -> list[Any]:
    error = connection.ask(_VERSIONS, 3).error_code
    connection.send(_VERSIONS, 3)
    return [error, end(connection)]


def token_without_handshake(connection: Connection, users: dict[str, str]) -> list[Any]:
    connection.send(wire.SaslAuthenticateRequest(auth_bytes=b"\0alice\0a"))
    return [end(connection)]


def another_request_within(connection: Connection, users: dict[str, str]) -> list[Any]:
    said = [handshake(connection), connection.ask(wire.ListGroupsRequest(), 4).error_code]
    connection.send(wire.ListGroupsRequest(), 4)
    return [*said, end(connection)]


def handshake_twice(connection: Connection, users: dict[str, str]) -> list[Any]:
    said = [handshake(connection), handshake(connection)]
    connection.send(_VERSIONS, 3)
    return [*said, end(connection)]


def unknown_mechanism(connection: Connection, users: dict[str, str]) -> list[Any]:
    said = [handshake(connection, "SCRAM-SHA-1")]
    connection.send(_VERSIONS, 3)
    return [*said, end(connection)]


def wrong_password(connection: Connection, users: dict[str, str]) -> list[Any]:
    said = [handshake(connection), exchange(connection, Plain("alice", "wrong"))]
    connection.send(_VERSIONS, 3)
    return [*said, end(connection)]


def wrong_password_by_scram(connection: Connection, users: dict[str, str]) -> list[Any]:
    handshake(connection, "SCRAM-SHA-256")
    return exchange(connection, Scram("alice", "wrong", "SCRAM-SHA-256"))


def unknown_user_by_scram(connection: Connection, users: dict[str, str]) -> list[Any]:
    handshake(connection, "SCRAM-SHA-256")
    return exchange(connection, Scram("mallory", "wrong", "SCRAM-SHA-256"))


def wrong_token(connection: Connection, users: dict[str, str]) -> list[Any]:
    handshake(connection, "OAUTHBEARER")
    bearer = connection.ask(wire.SaslAuthenticateRequest(auth_bytes=b"n,,\1auth=Bearer a.b.c\1\1"))
    last = connection.ask(wire.SaslAuthenticateRequest(auth_bytes=b"\1"))
    return [bytes(bearer.auth_bytes), bearer.error_code, last.error_code, last.error_message]


def after_the_login(connection: Connection, users: dict[str, str]) -> list[Any]:
    said = [handshake(connection), exchange(connection, Plain("alice", users["alice"]))]
    again = connection.ask(wire.SaslAuthenticateRequest(auth_bytes=b"\0alice\0a"))
    return [*said, again.error_code, again.error_message, connection.ask(wire.ListGroupsRequest(), 4).error_code]


def once_more(connection: Connection, users: dict[str, str]) -> list[Any]:
    said = []
    for _ in range(3):
        found = handshake(connection)
        said.append(found)
        if not found[1]:
            said.append(exchange(connection, Plain("alice", users["alice"])))
    return [*said, connection.ask(wire.ListGroupsRequest(), 4).error_code]


def as_another(connection: Connection, users: dict[str, str]) -> list[Any]:
    said = [handshake(connection), exchange(connection, Plain("alice", users["alice"]))]
    return [*said, handshake(connection), exchange(connection, Plain("bob", users["bob"]))[1]]


def by_another_mechanism(connection: Connection, users: dict[str, str]) -> list[Any]:
    said = [handshake(connection), exchange(connection, Plain("alice", users["alice"]))]
    said.append(handshake(connection, "SCRAM-SHA-256"))
    connection.send(wire.SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"))
    return [*said, end(connection)]


def too_late(connection: Connection, users: dict[str, str]) -> list[Any]:
    said = [handshake(connection), exchange(connection, Plain("alice", users["alice"]))]
    handler.sleep(3.2)
    connection.send(wire.ListGroupsRequest(), 4)
    return [*said, end(connection)]


def _bare(connection: Connection, token: bytes) -> list[Any]:
    said = connection.ask(wire.SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code
    connection.stream.send([len(token).to_bytes(4, "big") + token], LIMIT)
    try:
        return [said, bytes(connection._frames.next(LIMIT))]
    except (SocketDisconnectedError, ConnectionResetError):
        return [said, "cut"]


def bare_token(connection: Connection, users: dict[str, str]) -> list[Any]:
    said = _bare(connection, f"\0alice\0{users['alice']}".encode())
    return [*said, connection.ask(wire.ListGroupsRequest(), 4).error_code]


def wrong_bare_token(connection: Connection, users: dict[str, str]) -> list[Any]:
    return _bare(connection, b"\0alice\0wrong")


_ALWAYS = [
    *(too_early, versions_twice, token_without_handshake, another_request_within, handshake_twice, unknown_mechanism),
    *(wrong_password, wrong_password_by_scram, unknown_user_by_scram, wrong_token, after_the_login, once_more),
    *(bare_token, wrong_bare_token),
]
_SHORT = [once_more, as_another, by_another_mechanism, too_late]


@pytest.mark.parametrize(
    ("listener", "talk"),
    [*(("SASL_PLAINTEXT", talk) for talk in _ALWAYS), *(("SHORT_PLAINTEXT", talk) for talk in _SHORT)],
)
def test_fake_brokers_take_logins_as_real_ones(
    secure_kafka: KafkaCluster, listener: str, talk: Callable[[Connection, dict[str, str]], list[Any]]
) -> None:
    assert secure_kafka.sasl is not None
    users = dict(secure_kafka.sasl.users)
    offered = [one for one in secure_kafka.mechanisms if listener == "SASL_PLAINTEXT" or one != "SCRAM-SHA-512"]
    sasl = Sasl(
        users,
        mechanisms=offered,
        check_token=lambda token: None,
        max_reauth_ms=secure_kafka.sasl.session_ms if listener == "SHORT_PLAINTEXT" else 0,
    )
    with FakeCluster(brokers=1, sasl=sasl) as fake, connected(fake) as connection:
        found = talk(connection, users)
    real: Any = SimpleNamespace(hosts=secure_kafka.hosts_of(listener))
    with connected(real) as connection:
        assert found == talk(connection, users)
