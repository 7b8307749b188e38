"""Logins by Kerberos at real brokers, with tickets of Apache Kerby's KDC: `Gssapi` on threads and greenlets.

It uses the package `gssapi` where that is installed, else a stand-in over the system's libgssapi_krb5
(tests/support/gssapi_library.py): the library's code is the same, the binding is not.
"""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykafka import Gssapi, KafkaClient, ManagedBalancedConsumer
from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from pykafka.exceptions import KafkaException, SaslAuthenticationFailed, TokenUnavailableError
from pykafka.handlers import GEventHandler, Handler
from tests.brokers import LATEST, KafkaCluster, Sasl
from tests.brokers.kerberos import BROKER_HOST, OTHER_SERVICE, SERVICE, Kdc
from tests.support.groups import Group
from tests.support.kerberos import LateKdc, install_library, kinit
from tests.support.logins import log_in
from tests.support.topics import create_topic
from tests.support.traffic import check_round_trips
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(300)]

PROTOCOLS = ["SASL_PLAINTEXT", "SASL_SSL"]
#: SaslAuthenticate, twice; bare tokens behind SaslHandshake 0; bare tokens alone.
RELEASES = [LATEST, "2.8.2", "0.10.2.2", "0.9.0.1"]
latest = pytest.mark.parametrize("cluster", [LATEST], indirect=True)
LOAD_S = 8.0
#: Kerby gives no ticket for less.
SHORT_S = 6


@pytest.fixture(scope="module", params=RELEASES)
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    with KafkaCluster(request.param, sasl=Sasl(kerberos=True)) as cluster:
        yield cluster


@pytest.fixture
def kdc(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kdc:
    """Yield the brokers' KDC, which this process finds, with no ticket yet."""
    install_library(monkeypatch)
    assert cluster.kdc is not None
    monkeypatch.setenv("KRB5_CONFIG", str(cluster.kdc.config))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(tmp_path / "none"))
    return cluster.kdc


def move_kdc(monkeypatch: pytest.MonkeyPatch, directory: Path, port: int) -> None:
    """Point this process to a KDC at another port."""
    file = directory / "krb5.conf"
    file.write_text(Kdc.configuration(port))
    monkeypatch.setenv("KRB5_CONFIG", str(file))


def by_keytab(kdc: Kdc, **options: Any) -> Gssapi:
    return Gssapi(SERVICE, **{"principal": kdc.principal, "keytab": str(kdc.keytab), **options})


def client_of(cluster: KafkaCluster, handler: Handler, sasl: Gssapi, listener: str = "SASL_PLAINTEXT") -> KafkaClient:
    # 0.9 cannot be asked for its version before the login.
    version = "0.9.0.1" if cluster.version == "0.9.0.1" else "auto"
    return log_in(cluster, listener, sasl, handler=handler, broker_version=version)


def refusal(cluster: KafkaCluster, handler: Handler, sasl: Gssapi, expected: type[KafkaException]) -> str:
    with pytest.raises(expected) as refused:
        client_of(cluster, handler, sasl).close()
    assert [attempt.stage for attempt in refused.value.ledger] == ["SASL"]
    text = str(refused.value)
    assert cluster.hosts_of("SASL_PLAINTEXT") in text
    return text


@pytest.mark.parametrize("listener", PROTOCOLS)
def test_the_table(cluster: KafkaCluster, kdc: Kdc, handler: Handler, listener: str) -> None:
    with client_of(cluster, handler, by_keytab(kdc), listener) as client:
        topic = create_topic(client)
        messages = [b"%d" % number for number in range(100)]
        with topic.get_producer(linger_ms=5) as producer:
            for message in messages:
                producer.produce(message)
        with topic.get_simple_consumer(consumer_timeout_ms=20_000) as consumer:
            assert [message.value for message in itertools.islice(consumer, 100)] == messages
        group = Group(ManagedBalancedConsumer, client, partitions=2)
        values = group.produce(20)
        member = group.join()
        assert group.drain(20) == values
        member.stop()


def test_a_ticket_of_kinit(cluster: KafkaCluster, kdc: Kdc, handler: Handler, tmp_path: Path) -> None:
    kinit(kdc.principal, str(kdc.keytab), f"FILE:{tmp_path / 'tickets'}")
    for sasl in (Gssapi(), Gssapi(SERVICE, principal=kdc.principal), Gssapi(principal="alice", host=BROKER_HOST)):
        with client_of(cluster, handler, sasl) as client:
            assert client.brokers


def test_the_broker_refuses_a_ticket(cluster: KafkaCluster, kdc: Kdc, handler: Handler) -> None:
    sasl = Gssapi(OTHER_SERVICE, keytab=str(kdc.keytab))
    text = refusal(cluster, handler, sasl, SaslAuthenticationFailed)
    assert f"check the ticket (klist), the clocks, and that the broker's principal is other/{BROKER_HOST}" in text
    with client_of(cluster, handler, by_keytab(kdc)) as client:  # the good credentials go on working
        assert client.brokers


@latest
def test_there_is_no_ticket(cluster: KafkaCluster, kdc: Kdc, handler: Handler, tmp_path: Path) -> None:
    text = refusal(cluster, handler, Gssapi(), TokenUnavailableError)
    assert "run kinit, so that there is a ticket (klist shows them), or give keytab=" in text
    text = refusal(cluster, handler, Gssapi(principal=kdc.principal), TokenUnavailableError)
    assert f"so that there is a ticket of {kdc.principal}" in text
    text = refusal(cluster, handler, by_keytab(kdc, principal="nobody@PYKAFKA.TEST"), TokenUnavailableError)
    assert f"no keys of nobody@PYKAFKA.TEST in {kdc.keytab}; check that this process can read the file" in text
    missing = str(tmp_path / "missing.keytab")
    text = refusal(cluster, handler, Gssapi(keytab=missing), TokenUnavailableError)
    assert f"it finds no keys in {missing}; check that this process can read the file" in text


@latest
def test_names_that_the_kdc_does_not_know(cluster: KafkaCluster, kdc: Kdc, handler: Handler) -> None:
    text = refusal(cluster, handler, by_keytab(kdc, host="elsewhere"), TokenUnavailableError)
    assert "kafka/elsewhere@PYKAFKA.TEST not found in Kerberos database; check host= and service=" in text
    text = refusal(cluster, handler, by_keytab(kdc, principal="alice@NOWHERE.TEST"), TokenUnavailableError)
    assert "alice@NOWHERE.TEST" in text


@latest
def test_an_expired_ticket(cluster: KafkaCluster, kdc: Kdc, handler: Handler, tmp_path: Path) -> None:
    kinit(kdc.principal, str(kdc.keytab), f"FILE:{tmp_path / 'tickets'}", SHORT_S)
    with client_of(cluster, handler, Gssapi()) as client:
        client.update_cluster()  # over the connection to the broker itself, as later
        told: list[str] = []

        def has_expired() -> bool:
            try:
                client_of(cluster, handler, Gssapi()).close()
            except TokenUnavailableError as error:
                told.append(str(error))
            return bool(told)

        until(handler, has_expired)
        assert "Ticket expired; run kinit again, or give keytab=" in told[0]
        client.update_cluster()  # a connection that is there goes on
    kinit(kdc.principal, str(kdc.keytab), f"FILE:{tmp_path / 'tickets'}")
    with client_of(cluster, handler, Gssapi()) as client:
        assert client.brokers


@latest
def test_a_keytab_leaves_the_users_tickets_alone(
    cluster: KafkaCluster, kdc: Kdc, handler: Handler, tmp_path: Path
) -> None:
    tickets = tmp_path / "tickets"
    with client_of(cluster, handler, by_keytab(kdc)) as client:
        assert client.brokers
    assert not tickets.exists()
    kinit(kdc.broker_principal, str(kdc.broker_keytab), f"FILE:{tickets}")
    before = tickets.read_bytes()
    for sasl in (by_keytab(kdc), Gssapi(keytab=str(kdc.keytab))):
        with client_of(cluster, handler, sasl) as client:
            assert client.brokers
    assert tickets.read_bytes() == before


@latest
def test_the_keytab_serves_when_its_ticket_has_expired(
    cluster: KafkaCluster, kdc: Kdc, handler: Handler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "krb5.conf"
    file.write_text(
        Kdc.configuration(kdc.port).replace("[libdefaults]", f"[libdefaults]\nticket_lifetime = {SHORT_S}s")
    )
    monkeypatch.setenv("KRB5_CONFIG", str(file))
    keytab = tmp_path / "short.keytab"  # a cache of its own
    keytab.write_bytes(kdc.keytab.read_bytes())
    sasl = by_keytab(kdc, keytab=str(keytab))
    end = handler.now() + SHORT_S + 2
    while handler.now() < end:
        with client_of(cluster, handler, sasl) as client:
            assert client.brokers
        handler.sleep(0.2)


@latest
def test_the_kdc_is_down(
    cluster: KafkaCluster, kdc: Kdc, handler: Handler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LateKdc(None) as closed:
        pass
    move_kdc(monkeypatch, tmp_path, closed.port)
    keytab = tmp_path / "another.keytab"
    keytab.write_bytes(kdc.keytab.read_bytes())
    text = refusal(cluster, handler, by_keytab(kdc, keytab=str(keytab)), TokenUnavailableError)
    assert "Cannot contact any KDC for realm 'PYKAFKA.TEST'; check the realm's kdc= in krb5.conf" in text


@latest
def test_the_kdc_does_not_answer(
    cluster: KafkaCluster, kdc: Kdc, handler: Handler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library would wait for 50 seconds."""
    keytab = tmp_path / "silent.keytab"
    keytab.write_bytes(kdc.keytab.read_bytes())
    sasl = by_keytab(kdc, keytab=str(keytab))
    with LateKdc(None) as silent:
        move_kdc(monkeypatch, tmp_path, silent.port)
        started = time.monotonic()
        with pytest.raises(TokenUnavailableError, match="the KDC does not answer; check the realm's kdc="):
            log_in(cluster, "SASL_PLAINTEXT", sasl, handler=handler, socket_timeout_ms=1500)
        assert time.monotonic() - started < 20
        assert silent.asked == 1


@latest
def test_the_hub_turns_while_the_kdc_is_slow(
    cluster: KafkaCluster, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = GEventHandler()
    keytab = tmp_path / "slow.keytab"
    keytab.write_bytes(kdc.keytab.read_bytes())
    ticks: list[float] = []
    ended = handler.Event()

    def tick() -> None:
        while not ended.is_set():
            ticks.append(handler.now())
            handler.sleep(0.01)

    with LateKdc(kdc.port, 2.0) as slow:
        move_kdc(monkeypatch, tmp_path, slow.port)
        ticker = handler.spawn(tick)
        started = handler.now()
        try:
            # Longer than a first try at a broker that may be down.
            with client_of(cluster, handler, by_keytab(kdc, keytab=str(keytab))) as client:
                took = handler.now() - started
                assert client.brokers
        finally:
            ended.set()
            ticker.join(10)
        assert slow.asked >= 2  # for the ticket to get tickets, and for the broker's
    assert took >= 4
    # Without offloading, there would be two pauses as long as the KDC's.
    assert max(after - before for before, after in itertools.pairwise(ticks)) < 1.8


@latest
def test_many_logins_at_once(cluster: KafkaCluster, kdc: Kdc, handler: Handler, tmp_path: Path) -> None:
    keytab = tmp_path / "many.keytab"
    keytab.write_bytes(kdc.keytab.read_bytes())
    sasl = by_keytab(kdc, keytab=str(keytab))
    found: list[int] = []

    def connect() -> None:
        for _ in range(5):
            with client_of(cluster, handler, sasl) as client:
                found.append(len(client.brokers))

    workers = [handler.spawn(connect) for _ in range(8)]
    for worker in workers:
        worker.join(120)
    assert found == [1] * 40


@latest
@pytest.mark.parametrize("listener", ["SHORT_PLAINTEXT", "SHORT_SSL"])
def test_nothing_is_lost_while_logins_are_renewed(
    cluster: KafkaCluster, kdc: Kdc, handler: Handler, listener: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pykafka.network")
    with client_of(cluster, handler, by_keytab(kdc), listener) as client:
        check_round_trips(client, handler, LOAD_S)
    assert sum("renewed the login" in record.getMessage() for record in caplog.records) >= 3
    assert "could not be renewed" not in caplog.text


@latest
def test_a_session_outlasts_a_kdc_that_is_down(
    cluster: KafkaCluster,
    kdc: Kdc,
    handler: Handler,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Tickets to the brokers are there already: renewals need no KDC."""
    caplog.set_level(logging.DEBUG, "pykafka.network")
    with client_of(cluster, handler, by_keytab(kdc), "SHORT_PLAINTEXT") as client:
        with LateKdc(None) as closed:
            pass
        move_kdc(monkeypatch, tmp_path, closed.port)
        end = handler.now() + 5
        while handler.now() < end:
            client.update_cluster()
            handler.sleep(0.05)
    assert "renewed the login" in caplog.text
    assert "could not be renewed" not in caplog.text


@latest
def test_the_doctor(cluster: KafkaCluster, kdc: Kdc, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"

    def findings(keytab: str, status: int) -> list[dict[str, Any]]:
        lines = {
            "bootstrap.servers": cluster.hosts_of("SASL_PLAINTEXT"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": SERVICE,
            "sasl.jaas.config": kdc.user_jaas.replace(str(kdc.keytab), keytab),
        }
        file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        result = CliRunner().invoke(tools, ["doctor", "--config", str(file), "--json"])
        assert result.exit_code == status, result.output
        found: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
        return found

    assert [one["step"] for one in findings(str(kdc.keytab), Status.OK)][:4] == ["DNS", "TCP", "SASL", "ApiVersions"]
    missing = str(tmp_path / "missing.keytab")
    (failed,) = (one for one in findings(missing, Status.UNREACHABLE) if one["result"] == "FAILED")
    assert failed["step"] == "SASL"
    assert f"no keys of {kdc.principal} in {missing}; check that this process can read the file" in failed["detail"]
