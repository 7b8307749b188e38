"""kafka-tools doctor: at whom it points when something is wrong."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pykafka
from pykafka import KafkaClient
from pykafka.cli.app import tools
from pykafka.cli.diagnosis import Examination, judge_advertised
from pykafka.cli.exit_status import Status
from pykafka.exceptions import ConnectionRefused
from pykafka.handlers import Address, ThreadingHandler
from pykafka.network.options import ConnectionSettings
from pykafka.protocol import wire
from tests.support.certs import Pems
from tests.support.scripted import ScriptedBroker
from tests.support.tunnels import TunnelProxy


def doctor(*arguments: str, options: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]]]:
    """Run it, and give its exit status and what it found."""
    result = CliRunner().invoke(tools, ["--socket_timeout_ms", "2000", *options, "doctor", "--json", *arguments])
    return result.exit_code, json.loads(result.stdout)["findings"]


def failures(findings: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["step"], one["detail"]) for one in findings if one["result"] == "FAILED"]


class Advertising(ScriptedBroker):
    """A broker that says that it is elsewhere."""

    def __init__(self, advertised: tuple[str, int], cluster_id: str = "one") -> None:
        super().__init__()
        self.advertised = advertised
        self.cluster_id = cluster_id

    def _metadata(self) -> wire.MetadataResponse:
        host, port = self.advertised
        brokers = [wire.MetadataResponse.Broker(node_id=7, host=host, port=port)]
        return wire.MetadataResponse(brokers=brokers, cluster_id=self.cluster_id)


def test_all_is_well() -> None:
    with ScriptedBroker() as broker:
        status, findings = doctor(broker.hosts)
        text = CliRunner().invoke(tools, ["-b", broker.hosts, "doctor"]).stdout
    assert status == Status.OK
    assert [one["step"] for one in findings] == ["DNS", "TCP", "ApiVersions", "Metadata", "Advertised"]
    assert failures(findings) == []
    assert "FAILED" not in text
    assert "Metadata" in text


def test_several_copies_on_the_path_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pykafka").mkdir()
    (tmp_path / "pykafka" / "__init__.py").write_text("__version__ = '2.8.0'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with ScriptedBroker() as broker:
        status, findings = doctor(broker.hosts)
    assert status == Status.OK
    noted = [(finding["result"], finding["detail"]) for finding in findings if finding["step"] == "Package"]
    assert [result for result, _ in noted] == ["note", "note"]
    assert noted[0][1].startswith(f"imported: PyKafka {pykafka.__version__} in ")
    assert noted[1][1].startswith(f"hidden: PyKafka 2.8.0 in {tmp_path / 'pykafka'};")


def test_brokers_that_zookeeper_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedBroker() as broker:
        host, port = broker.hosts.split(":")
        monkeypatch.setattr("pykafka.cli.options.broker_addresses", lambda *_: [(host, int(port))])
        status, findings = doctor(options=("--zookeeper", "zookeeper:2181"))
    assert status == Status.OK
    assert {one["host"] for one in findings} == {broker.hosts}


@pytest.mark.parametrize(
    ("peer", "step", "said"),
    [
        ("refused", "TCP", "refused"),
        ("http", "ApiVersions", "HTTP"),
        ("silent", "ApiVersions", "did not answer"),
        ("hang_up", "ApiVersions", "closed the connection"),
        ("tls_broker", "ApiVersions", "--tls"),
    ],
)
def test_what_is_no_broker(peers: dict[str, int], peer: str, step: str, said: str) -> None:
    status, findings = doctor(f"127.0.0.1:{peers[peer]}")
    assert status == Status.UNREACHABLE
    ((found, detail),) = failures(findings)
    assert found == step
    assert said in detail


def test_a_port_that_swallows(peers: dict[str, int]) -> None:
    status, findings = doctor(f"127.0.0.1:{peers['swallows']}", options=("--socket_timeout_ms", "300"))
    assert status == Status.UNREACHABLE
    ((step, detail),) = failures(findings)
    assert step == "TCP"
    assert "did not answer" in detail


def test_a_name_that_leads_nowhere() -> None:
    status, findings = doctor("no-such-host.invalid:9092")
    assert status == Status.UNREACHABLE
    assert [step for step, _ in failures(findings)] == ["DNS"]


def test_tls_to_what_speaks_none(peers: dict[str, int]) -> None:
    status, findings = doctor(f"127.0.0.1:{peers['http']}", options=("--tls",))
    assert status == Status.UNREACHABLE
    ((step, detail),) = failures(findings)
    assert step == "TLS"
    assert "TLS port" in detail


def test_a_certificate_that_is_not_trusted(peers: dict[str, int], pems: Pems) -> None:
    hosts = f"localhost:{peers['tls_broker']}"
    for options, said in ((("--tls",), "not trusted"), (("--cafile", pems.path("stranger.pem")), "--cafile")):
        _, findings = doctor(hosts, options=options)
        assert [step for step, _ in failures(findings)][:1] == ["TLS"]
        assert said in failures(findings)[0][1]


@pytest.mark.parametrize(("advertised", "step"), [(("127.0.0.1", 1), "TCP"), (("no-such-host.invalid", 9092), "DNS")])
def test_an_advertised_address_that_leads_nowhere(advertised: tuple[str, int], step: str) -> None:
    with Advertising(advertised) as broker:
        status, findings = doctor(broker.hosts)
    assert status == Status.FAILED  # it was reached
    (first, _), (second, detail) = failures(findings)
    assert (first, second) == (step, "Advertised")
    assert f"broker 7 advertises {advertised[0]}:{advertised[1]}" in detail
    assert "advertised.listeners" in detail


def test_errors_of_the_library_say_that_the_address_was_advertised() -> None:
    with Advertising(("127.0.0.1", 1)) as broker, KafkaClient(hosts=broker.hosts) as client:
        with pytest.raises(ConnectionRefused, match="advertised.listeners"):
            client.brokers[7].connect(attempts=1)


def test_another_cluster_at_the_advertised_address() -> None:
    other = Advertising(("127.0.0.1", 1), "two")
    other.advertised = ("127.0.0.1", int(other.hosts.split(":")[1]))
    with other, Advertising(other.advertised, "one") as broker:
        status, findings = doctor(broker.hosts)
    assert status == Status.FAILED
    ((step, detail),) = failures(findings)
    assert step == "Advertised"
    assert "cluster two answers instead of one" in detail


@pytest.mark.parametrize(
    ("seed", "advertised", "harmless"),
    [
        ("kafka.example:9092", "localhost", False),
        ("10.1.2.3:9092", "127.0.0.1", False),
        ("10.1.2.3:9092", "::1", False),
        ("localhost:9092", "127.0.0.1", True),
        ("[::1]:9092", "localhost", True),
        ("10.1.2.3:9092", "kafka-1.example", True),
    ],
)
def test_an_advertised_address_that_is_everybodys_own(seed: str, advertised: str, harmless: bool) -> None:
    found = judge_advertised(seed, wire.MetadataResponse.Broker(node_id=1, host=advertised, port=9092))
    assert (found.result == "ok") == harmless
    assert ("its own machine" in found.detail) != harmless


def test_one_of_several_addresses_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(_: object, host: str, port: int, timeout: float | None = None, **wanted: Any) -> list[Address]:
        return [Address(socket.AF_INET, (address, port)) for address in ("127.0.0.2", "127.0.0.1")]

    with ScriptedBroker() as broker:
        monkeypatch.setattr(ThreadingHandler, "resolve", resolve)
        status, findings = doctor(broker.hosts)
    assert status == Status.OK
    (note,) = [one for one in findings if one["result"] == "note"]
    assert note["step"] == "TCP"
    assert "127.0.0.2" in note["detail"]


def test_no_topic_no_round_trip() -> None:
    with ScriptedBroker() as broker:
        status, findings = doctor(broker.hosts, "--topic", "no-such-topic")
    assert status == Status.FAILED
    assert [step for step, _ in failures(findings)] == ["Topic"]


def test_one_address_of_several() -> None:
    with ScriptedBroker() as broker:
        status, findings = doctor(f"{broker.hosts},127.0.0.1:1")
    assert status == Status.FAILED
    assert [one["step"] for one in findings if one["result"] == "FAILED"] == ["TCP"]


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])
def test_the_doctor_goes_through_the_proxy(scheme: str) -> None:
    with ScriptedBroker() as broker, TunnelProxy(names={"broker.invalid": "127.0.0.1"}) as tunnel:
        port = int(broker.hosts.split(":")[1])
        settings = ConnectionSettings(proxy=tunnel.url(scheme))
        found = list(Examination(5000, settings).run([("127.0.0.1", port)]))
        assert {finding.result for finding in found} == {"ok"}
        assert "PROXY" in {finding.step for finding in found}
        tunnel.refuses = True
        host = "127.0.0.1" if scheme == "socks5" else "broker.invalid"  # which this machine does not look up
        found = list(Examination(5000, settings).run([(host, port)]))
        assert (found[-1].step, found[-1].result) == ("PROXY", "FAILED")
        assert all(asked[1] == port for asked in tunnel.asked)
