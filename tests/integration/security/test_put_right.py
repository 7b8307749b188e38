"""Certificates and credentials that stop working while a client runs, and that work again: nobody is restarted.

Each row begins with a client that works. Then something goes wrong at its next login or handshake: the errors say what, and the
remedy. When it is put right, the same producer, consumer and member of a group go on.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka import KafkaClient, SslConfig
from pykafka.admin import ScramMechanism, UserScramCredentialUpsertion
from pykafka.exceptions import KafkaException, MessagesNotDelivered
from pykafka.handlers import Handler
from pykafka.security import DelegationToken, Mechanism, OAuthBearer, OidcClientCredentials
from pykafka.security.oauth import OAuthToken
from tests.brokers import KafkaCluster
from tests.support.fleet import Fleet
from tests.support.logins import credentials, eventually, log_in, logs_in
from tests.support.proxies import CuttingProxy, detour
from tests.support.token_endpoint import TokenEndpoint
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("signed tokens"), pytest.mark.timeout(300)]


class Running:
    """A producer, a consumer and a member of a group that have worked.

    :param client: whose
    """

    def __init__(self, client: KafkaClient) -> None:
        self.handler = client.cluster.handler
        self.count = 0
        topic = create_topic(client)
        options: dict[str, Any] = {"consumer_timeout_ms": 200, "auto_offset_reset": -2, "fetch_wait_max_ms": 100}
        self.producer = topic.get_producer(linger_ms=1, delivery_timeout_ms=2500, required_acks=-1)
        self.consumer = topic.get_simple_consumer(**options)
        group = f"g-{uuid.uuid4().hex[:8]}"
        self.member = topic.get_balanced_consumer(
            group, managed=True, session_timeout_ms=6000, heartbeat_interval_ms=300, **options
        )
        self.works()

    def works(self, seconds: float = 30) -> None:
        """Wait until a new message goes all the way, to both consumers."""
        self.count += 1
        value = b"%d" % self.count
        found: dict[str, set[bytes | None]] = {"consumer": set(), "member": set()}

        def arrives() -> bool:
            try:
                self.producer.produce(value)
                self.producer.flush()
            except MessagesNotDelivered:
                return False
            for name, values in found.items():
                try:
                    values |= {message.value for message in itertools.islice(getattr(self, name), 50)}
                except KafkaException:
                    pass  # what was told before
            return all(value in values for values in found.values())

        until(self.handler, arrives, seconds)

    def says(self, *texts: str, seconds: float = 45) -> None:
        """Wait until producer, consumer and member have each raised an error with these texts, or of these classes."""
        for name, call in (
            ("producer", self._produce),
            ("consumer", self.consumer.consume),
            ("member", self.member.consume),
        ):
            told: list[str] = []

            def tells(call: Callable[[], object] = call, told: list[str] = told) -> bool:
                try:
                    call()
                except KafkaException as error:
                    told.append(f"{type(error).__name__}: {error}")
                return any(all(text.lower() in one.lower() for text in texts) for one in told)

            try:
                until(self.handler, tells, seconds)
            except AssertionError as error:
                raise AssertionError(f"{name} said {set(told)}, not {texts}") from error

    def _produce(self) -> None:
        self.producer.produce(b"in vain")
        self.producer.flush()

    def stop(self) -> None:
        self.producer.stop()
        self.consumer.stop()
        self.member.stop()


@pytest.fixture(params=["threads", "gevent"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Yield one broker that wants SASL and a client certificate."""
    made = Fleet(tmp_path_factory.mktemp("fleet"), brokers=1)
    with made.cluster:
        yield made


# -- certificates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "texts"),
    [
        ("authority removed", ("is not trusted", "cafile of the authority")),
        ("revoked", ("was revoked by its authority", "give the broker a new one")),
        ("stranger", ("client certificate", "truststore", "give SslConfig a certfile and keyfile")),
        ("expired", ("client certificate", "that of this client has expired, on 20")),
    ],
)
@pytest.mark.later("authority", "gevent-revoked", "stranger", "threads-expired")
def test_files_of_the_client(fleet: Fleet, tmp_path: Path, kind: str, fault: str, texts: tuple[str, ...]) -> None:
    """The client's files change, or its certificate expires, behind a handshake that went well; then connections are cut."""
    lifetime_s = 8 if fault == "expired" else 600
    revoking = fleet.authority.revoke(fleet.certificates[1])
    config = fleet.certify_client(tmp_path, days=(-1, lifetime_s / 86_400))
    stranger, stranger_file = fleet.make_authority()
    with CuttingProxy(fleet.ports("SASL_SSL")[0]) as proxy:
        handler = detour(kind, {fleet.ports("SASL_SSL")[0]: proxy.port})
        born = handler.now()
        with connected(fleet, handler, config) as client:
            running = Running(client)
            if fault == "authority removed":
                Path(tmp_path, "ca.pem").write_bytes(stranger_file.read_bytes())
            elif fault == "revoked":
                Path(tmp_path, "crl.pem").write_bytes(revoking)
            elif fault == "stranger":
                stranger.sign(tmp_path, "client")
            else:
                until(handler, lambda: handler.now() > born + lifetime_s + 1)
            running.works()  # open connections go on
            proxy.cut()
            running.says("TlsError", *texts)
            fleet.certify_client(tmp_path)
            running.works()
            running.stop()


@pytest.mark.later("gevent")
def test_the_application_names_other_files(fleet: Fleet, tmp_path: Path, kind: str) -> None:
    """A certificate of an authority that the broker does not know, and then one that it does, at another path."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    known, config = fleet.certify_client(good), fleet.certify_client(bad)
    with CuttingProxy(fleet.ports("SASL_SSL")[0]) as proxy:
        handler = detour(kind, {fleet.ports("SASL_SSL")[0]: proxy.port})
        with connected(fleet, handler, config) as client:
            running = Running(client)
            fleet.make_authority()[0].sign(bad, "client")
            proxy.cut()
            running.says("TlsError", "client certificate")
            client.set_credentials(tls=known)
            running.works()
            assert client.cluster.ssl_config is known
            running.stop()


@pytest.mark.parametrize(
    ("workers", "fault", "texts"),
    [
        ("threads", "expired", ("has expired", "renew it on the broker")),
        ("gevent", "expired", ("has expired", "renew it on the broker")),
        ("gevent", "early", ("is not valid yet", "clock")),
        ("threads", "elsewhere", ("does not name", "connect by a name that it has")),
        ("gevent", "stranger", ("is not trusted", "cafile of the authority")),
        ("threads", "revoked", ("was revoked by its authority", "give the broker a new one")),
    ],
)
@pytest.mark.matrix
def test_a_broker_that_comes_back_with_a_wrong_certificate(
    fleet: Fleet, tmp_path: Path, workers: str, fault: str, texts: tuple[str, ...]
) -> None:
    """Whether or not a new leader is known: a broker that was shut down has told that it leads no more."""
    config = fleet.certify_client(tmp_path)
    cluster = fleet.cluster
    with connected(fleet, detour(workers, {}), config) as client:
        running = Running(client)
        cluster.stop(1)
        if fault == "expired":
            fleet.certify(days=(-9, -2))
        elif fault == "early":
            fleet.certify(days=(2, 9))
        elif fault == "elsewhere":
            fleet.certify(hosts=["elsewhere.example"])
        elif fault == "stranger":
            fleet.certify(authority=fleet.make_authority()[0])
        else:
            fleet.certify()
            Path(tmp_path, "crl.pem").write_bytes(fleet.authority.revoke(fleet.certificates[1]))
        cluster.start(1)
        try:
            running.says("TLS", *texts)
        finally:
            cluster.stop(1)
            fleet.certify()
            cluster.start(1)
        running.works(60)
        running.stop()


def connected(fleet: Fleet, handler: Handler, tls: SslConfig) -> KafkaClient:
    return KafkaClient(
        fleet.cluster.hosts_of("SASL_SSL"),
        handler=handler,
        tls=tls,
        sasl=credentials(fleet.cluster, "SCRAM-SHA-512"),
        socket_timeout_ms=3000,
    )


# -- credentials -------------------------------------------------------------------------------------------------------


def logged_in(kafka: KafkaCluster, kind: str, listener: str, sasl: Mechanism) -> KafkaClient:
    return log_in(kafka, listener, sasl, handler=detour(kind, {}), socket_timeout_ms=3000)


@pytest.mark.needs("sessions", "scram users")
@pytest.mark.later("threads")
def test_a_password_is_changed(secure_kafka: KafkaCluster, kind: str) -> None:
    """The session's end is the stage: until then, connections go on."""
    name = f"user-{uuid.uuid4().hex[:8]}"
    sasl = credentials(secure_kafka, "SCRAM-SHA-512", user=name)
    with KafkaClient(secure_kafka.hosts) as direct:

        def set_password(password: str) -> None:
            change = UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_256, password)
            direct.admin.alter_user_scram_credentials(change)

        set_password(secure_kafka.password)
        sasl = credentials(secure_kafka, "SCRAM-SHA-256", user=name)
        eventually(lambda: logs_in(secure_kafka, "SASL_PLAINTEXT", sasl))
        with logged_in(secure_kafka, kind, "SHORT_SSL", sasl) as client:
            running = Running(client)
            set_password("another-one")
            running.says("SaslAuthenticationFailed", name, "check user name and password")
            set_password(secure_kafka.password)
            running.works()
            running.stop()


@pytest.mark.parametrize(
    ("fault", "texts"),
    [
        ("fails", ("TokenUnavailableError", "provide() gave no token", "the service of tokens is away")),
        ("old token", ("SaslAuthenticationFailed", "the token of provide() has expired", "get a new one")),
        ("wrong token", ("SaslAuthenticationFailed", "the broker refuses the login", "invalid_token")),
    ],
)
@pytest.mark.later("-fails-", "-old", "gevent")
def test_a_provider_of_tokens_fails(secure_kafka: KafkaCluster, kind: str, fault: str, texts: tuple[str, ...]) -> None:
    """The token's end ends the sessions: in the middle of a connection there is no next one that the broker takes."""
    state = "works"
    last = secure_kafka.token(lifetime_s=6)

    def provide() -> OAuthToken | str:
        nonlocal last
        if state == "fails":
            raise OSError("the service of tokens is away")
        if state == "wrong token":
            return secure_kafka.token(lifetime_s=6, aud="another")
        if state == "works":
            last = secure_kafka.token(lifetime_s=6)
        return last

    with logged_in(secure_kafka, kind, "SASL_PLAINTEXT", OAuthBearer(provide)) as client:
        running = Running(client)
        state = fault
        running.says(*texts)
        state = "works"
        running.works()
        running.stop()


@pytest.mark.matrix
def test_a_token_endpoint_goes_down(secure_kafka: KafkaCluster, token_endpoint: TokenEndpoint, kind: str) -> None:
    token_endpoint.lifetime_s = 6
    source = OidcClientCredentials(token_endpoint.url, token_endpoint.client_id, token_endpoint.client_secret)
    with logged_in(secure_kafka, kind, "SASL_SSL", OAuthBearer(source)) as client:
        running = Running(client)
        token_endpoint.fail(503, b"down for a while", times=10_000)
        running.says("TokenUnavailableError", token_endpoint.url, "503")
        token_endpoint.work()
        running.works()
        running.stop()


@pytest.mark.needs("sessions")
@pytest.mark.matrix
def test_a_delegation_token_is_expired_by_its_owner(secure_kafka: KafkaCluster, kind: str) -> None:
    """It does not come to life again: the error says that a new one is needed."""
    with log_in(secure_kafka, "SASL_PLAINTEXT") as owner:
        token = owner.admin.create_delegation_token()
        sasl = token.login("SCRAM-SHA-256")
        assert isinstance(sasl, DelegationToken)
        eventually(lambda: logs_in(secure_kafka, "SASL_PLAINTEXT", sasl))
        with logged_in(secure_kafka, kind, "SHORT_PLAINTEXT", sasl) as client:
            running = Running(client)
            owner.admin.expire_delegation_token(token)
            running.says("SaslAuthenticationFailed", "delegation token")
            running.stop()
