"""The pushes of a client, to brokers that answer by a script."""

from __future__ import annotations

import gc
import logging
import os
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import ClientClosedError, ResponseTimeoutError, TelemetryUnavailableError
from pykafka.handlers import Handler
from pykafka.metrics.metric import COUNTER, Metric, MetricName
from pykafka.protocol import wire
from pykafka.telemetry import sources, telemetry
from pykafka.utils.compression import decompress
from tests.support import scripted
from tests.support.scripted import ScriptedBroker
from tests.support.waiting import until
from tests.unit.telemetry.test_otlp import of

ID = UUID(int=7)
TOTAL = MetricName("record-send-total", "producer-metrics", (("client-id", "pykafka"),))


class TelemetryBroker(ScriptedBroker):
    """A broker that takes metrics of clients."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[wire.GetTelemetrySubscriptionsRequest] = []
        self.pushed: list[tuple[float, wire.PushTelemetryRequest]] = []
        #: The error codes of the next answers.
        self.ask_errors: list[int] = []
        self.push_errors: list[int] = []
        #: The metrics of clients; by default a counter that grows by one at each look.
        self.metrics: Callable[[], list[Metric]] = self._count
        self._looks = 0
        self.subscription: dict[str, Any] = {
            "subscription_id": 1,
            "accepted_compression_types": [4, 0],
            "push_interval_ms": 50,
            "telemetry_max_bytes": 1000,
            "delta_temporality": True,
            "requested_metrics": [""],
        }

    def _respond(self, request: Any) -> Any:
        if isinstance(request, wire.GetTelemetrySubscriptionsRequest):
            self.asked.append(request)
            if self.ask_errors:
                return wire.GetTelemetrySubscriptionsResponse(error_code=self.ask_errors.pop(0))
            return wire.GetTelemetrySubscriptionsResponse(**{"client_instance_id": ID, **self.subscription})
        if isinstance(request, wire.PushTelemetryRequest):
            self.pushed.append((time.monotonic(), request))
            return wire.PushTelemetryResponse(error_code=self.push_errors.pop(0) if self.push_errors else 0)
        return super()._respond(request)

    def read_own(self, cluster: Any) -> list[Metric]:
        """Stand in for `sources.read_own`."""
        return self.metrics()

    def _count(self) -> list[Metric]:
        self._looks += 1
        return [Metric(TOTAL, self._looks, COUNTER, "", "")]

    @property
    def totals(self) -> list[float]:
        """Return the value of `TOTAL` in each push."""
        return [value for _, request in self.pushed for value in total_of(request)]


def total_of(request: wire.PushTelemetryRequest) -> list[float]:
    data = bytes(decompress(request.compression_type, request.metrics))
    return [struct.unpack("<d", value)[0] for value in of(data, 1, 2, 2, 7, 1, 4)]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[TelemetryBroker]:
    for request in (wire.GetTelemetrySubscriptionsRequest, wire.PushTelemetryRequest):
        monkeypatch.setitem(scripted.VERSIONS, request, 0)
    with TelemetryBroker() as broker:
        monkeypatch.setattr(sources, "read_own", broker.read_own)
        yield broker


@pytest.fixture
def client(broker: TelemetryBroker, handler: Handler) -> Iterator[KafkaClient]:
    with KafkaClient(broker.hosts, handler=handler) as client:
        yield client


def test_pushes_come_regularly_and_the_last_one_at_the_end(broker: TelemetryBroker, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler) as client:
        assert client.instance_id() == ID
        until(handler, lambda: len(broker.pushed) >= 4)
    times, requests = zip(*broker.pushed, strict=True)
    assert [request.client_instance_id for request in broker.asked] == [UUID(int=0)]
    assert {request.client_instance_id for request in requests} == {ID}
    assert [request.terminating for request in requests] == [False] * (len(requests) - 1) + [True]
    assert {request.compression_type for request in requests} == {4}
    assert set(broker.totals) == {1.0}
    assert min(later - earlier for earlier, later in pairwise(times[:-1])) > 0.045


def test_totals_if_the_broker_wants_them(broker: TelemetryBroker, client: KafkaClient) -> None:
    broker.subscription["delta_temporality"] = False
    broker.push_errors = [117]  # ask again, whatever it wanted before
    until(client.cluster.handler, lambda: broker.totals[-3:] == sorted(broker.totals[-3:]) and broker.totals[-1:] > [3])


def test_the_first_push_comes_at_a_moment_of_its_own(
    broker: TelemetryBroker, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.subscription["push_interval_ms"] = 100_000
    dues = []
    for _ in range(5):
        with KafkaClient(broker.hosts, handler=handler) as client:
            client.instance_id()
            until(handler, lambda: telemetry.telemetry_of(client.cluster)._subscription is not None)
            dues.append(telemetry.telemetry_of(client.cluster)._due - handler.now())
    assert all(48 < due < 151 for due in dues)
    assert max(dues) - min(dues) > 0.5
    assert [request.terminating for _, request in broker.pushed] == [True] * 5  # however short they lived


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_an_interval_that_is_not_positive(broker: TelemetryBroker, handler: Handler, interval_ms: int) -> None:
    broker.subscription |= {"push_interval_ms": interval_ms, "telemetry_max_bytes": 0}
    with KafkaClient(broker.hosts, handler=handler) as client:
        client.instance_id()
        pusher = telemetry.telemetry_of(client.cluster)
        until(handler, lambda: pusher._subscription is not None)
        assert pusher._subscription is not None
        assert (pusher._subscription.interval_s, pusher._subscription.max_bytes) == (300.0, 2**20)


def test_a_subscription_that_changes(broker: TelemetryBroker, client: KafkaClient, handler: Handler) -> None:
    until(handler, lambda: broker.pushed)
    broker.subscription |= {"subscription_id": 2, "requested_metrics": ["org.apache.kafka.consumer."]}
    broker.push_errors = [117]
    until(handler, lambda: len(broker.pushed) > 1 and broker.pushed[-1][1].subscription_id == 2)
    assert broker.asked[-1].client_instance_id == ID
    assert total_of(broker.pushed[-1][1]) == []


def test_no_subscription_is_asked_about_again(broker: TelemetryBroker, handler: Handler) -> None:
    broker.subscription["requested_metrics"] = []
    with KafkaClient(broker.hosts, handler=handler):
        until(handler, lambda: len(broker.asked) >= 3)
        assert broker.pushed == []
        broker.subscription["requested_metrics"] = ["org.apache.kafka.producer."]
        until(handler, lambda: broker.pushed)


@pytest.mark.parametrize("everything", ["", "*"])
def test_all_metrics(broker: TelemetryBroker, handler: Handler, everything: str) -> None:
    broker.subscription["requested_metrics"] = [everything]
    with KafkaClient(broker.hosts, handler=handler):
        until(handler, lambda: broker.totals)


@pytest.mark.parametrize("accepted", [[], [9], [0]])
def test_codecs_that_the_client_has_not(broker: TelemetryBroker, handler: Handler, accepted: list[int]) -> None:
    broker.subscription["accepted_compression_types"] = accepted
    with KafkaClient(broker.hosts, handler=handler):
        until(handler, lambda: broker.pushed)
    assert {request.compression_type for _, request in broker.pushed} == {0}


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_codecs(broker: TelemetryBroker, handler: Handler, codec: int) -> None:
    broker.subscription["accepted_compression_types"] = [9, codec, 0]
    with KafkaClient(broker.hosts, handler=handler):
        until(handler, lambda: broker.pushed)
    assert {request.compression_type for _, request in broker.pushed} == {codec}


def test_a_codec_that_the_broker_does_not_take_after_all(broker: TelemetryBroker, handler: Handler) -> None:
    broker.push_errors = [76]
    with KafkaClient(broker.hosts, handler=handler):
        until(handler, lambda: len(broker.pushed) >= 3)
    assert [request.compression_type for _, request in broker.pushed][:3] == [4, 0, 0]
    assert broker.totals[:3] == [1, 2, 1]  # what was not taken comes with the next push


def test_a_push_that_is_too_large_shrinks(broker: TelemetryBroker, handler: Handler) -> None:
    broker.subscription["accepted_compression_types"] = [0]
    broker.push_errors = [118]
    names = [MetricName(f"lag-{number}", "consumer-metrics") for number in range(50)]
    broker.metrics = lambda: [Metric(name, 1.0, COUNTER, "", "") for name in names]
    with KafkaClient(broker.hosts, handler=handler):
        until(handler, lambda: len(broker.pushed) >= 2)
    sizes = [len(request.metrics) for _, request in broker.pushed]
    assert 500 < sizes[0] <= 1000
    assert 0 < sizes[1] <= sizes[0] // 2


@pytest.mark.parametrize("by", ["time", "another broker"])
def test_what_a_broker_did_not_take_is_tried_again(
    broker: TelemetryBroker, handler: Handler, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Its configuration may have changed; another broker has one of its own."""
    monkeypatch.setattr(telemetry, "HEEDED_S", 0.2 if by == "time" else 3600)
    monkeypatch.setattr(telemetry, "RETRY_MS", 20)
    names = [MetricName(f"lag-{number}", "consumer-metrics") for number in range(50)]
    broker.metrics = lambda: [Metric(name, 1.0, COUNTER, "", "") for name in names]
    broker.push_errors = [76, 118]

    def sizes() -> list[int]:
        return [len(decompress(one.compression_type, one.metrics)) for _, one in broker.pushed]

    with KafkaClient(broker.hosts, handler=handler):
        until(handler, lambda: len(broker.pushed) >= 3)
        assert [request.compression_type for _, request in broker.pushed[:3]] == [4, 0, 0]
        assert 0 < sizes()[2] <= sizes()[1] // 2
        if by == "another broker":
            cut = len(broker.pushed)
            broker.closes_on = lambda key, _: key == wire.PushTelemetryRequest.api_key and len(broker.asked) < 3
            until(handler, lambda: len(broker.asked) >= 3)
            until(handler, lambda: len(broker.pushed) > cut)
        until(handler, lambda: broker.pushed[-1][1].compression_type == 4)
        assert sizes()[-1] == sizes()[0]


@pytest.mark.parametrize(
    "nonsense",
    [
        {"subscription_id": -1},
        {"telemetry_max_bytes": -1},
        {"telemetry_max_bytes": 1},
        {"accepted_compression_types": [99, -1, 0]},
        {"requested_metrics": ["", "\u0000", "*", "org.apache.kafka." * 1000]},
        {"push_interval_ms": -(2**31)},
        {"client_instance_id": UUID(int=0)},
    ],
    ids=str,
)
def test_answers_that_make_no_sense_hold_nothing_up(
    broker: TelemetryBroker, handler: Handler, monkeypatch: pytest.MonkeyPatch, nonsense: dict[str, Any]
) -> None:
    monkeypatch.setattr(telemetry, "DEFAULT_INTERVAL_S", 0.05)
    broker.subscription = {"client_instance_id": ID, **broker.subscription, **nonsense}
    with KafkaClient(broker.hosts, handler=handler) as client:
        until(handler, lambda: len(broker.pushed) >= 2)
        assert client.topics is not None
        begin = time.monotonic()
    assert time.monotonic() - begin < 5
    assert len(broker.pushed) < 100


@pytest.mark.parametrize("code", [117, 118, 76, 999])
def test_a_broker_that_answers_errors_for_ever_is_not_hammered(
    broker: TelemetryBroker, handler: Handler, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    broker.push_errors = [code] * 1000
    with KafkaClient(broker.hosts, handler=handler):
        handler.sleep(0.3)
    assert 2 <= len(broker.pushed) <= 12  # one in 25 to 75 ms, and the last
    assert len([record for record in caplog.records if "telemetry" in record.name]) <= 2


def test_a_throttled_push_waits(
    broker: TelemetryBroker, client: KafkaClient, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    broker.push_errors = [89]
    until(handler, lambda: len(broker.pushed) >= 2)
    (first, _), (second, _) = broker.pushed[:2]
    assert second - first > 0.045
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_throttled_question_waits(broker: TelemetryBroker, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler):
        until(handler, lambda: broker.pushed)
        broker.ask_errors = [89]
        broker.push_errors = [117]  # ask anew
        asked = len(broker.asked)
        until(handler, lambda: len(broker.asked) >= asked + 2)  # after the interval of before
        seen = len(broker.pushed)
        until(handler, lambda: len(broker.pushed) > seen)


@pytest.mark.parametrize(("code", "text"), [(-1, "The broker failed without naming a reason"), (87, "INVALID_RECORD")])
def test_errors_are_logged_once(
    broker: TelemetryBroker, handler: Handler, caplog: pytest.LogCaptureFixture, code: int, text: str
) -> None:
    broker.push_errors = [code] * 3
    with KafkaClient(broker.hosts, handler=handler):
        until(handler, lambda: len(broker.pushed) >= 5)
    (record,) = [record for record in caplog.records if "telemetry" in record.name]
    assert record.getMessage().startswith("metrics of this client are not pushed: ")
    assert text in record.getMessage()


def test_connections_that_are_cut(
    broker: TelemetryBroker, handler: Handler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(telemetry, "RETRY_MS", 20)
    cuts: list[int] = []

    def closes(key: int, version: int) -> bool:
        if key == wire.PushTelemetryRequest.api_key and len(cuts) < 3:
            cuts.append(version)
            return True
        return False

    broker.closes_on = closes
    with KafkaClient(broker.hosts, handler=handler) as client:
        until(handler, lambda: len(broker.pushed) >= 3)
        assert client.instance_id() == ID
    assert [request.client_instance_id for request in broker.asked] == [UUID(int=0), ID, ID, ID]
    assert broker.totals[:3] == [4, 1, 1]  # what the lost pushes had comes with the next one
    warnings = [one for one in caplog.records if "telemetry" in one.name and one.levelno >= logging.WARNING]
    assert len(warnings) <= 1


@pytest.mark.parametrize("at", ["ask", "push"])
def test_a_broker_that_refuses_is_left_alone(
    broker: TelemetryBroker, handler: Handler, at: str, caplog: pytest.LogCaptureFixture
) -> None:
    errors = broker.ask_errors if at == "ask" else broker.push_errors
    errors.extend([42] * 10)
    with KafkaClient(broker.hosts, handler=handler) as client:
        until(handler, lambda: "not pushed" in caplog.text)
        handler.sleep(0.15)
        if at == "ask":
            with pytest.raises(TelemetryUnavailableError, match="the broker refuses the metrics of this client"):
                client.instance_id()
        client.update_cluster()
    assert (len(broker.asked), len(broker.pushed)) == ((1, 0) if at == "ask" else (1, 1))


def test_metrics_of_the_application(broker: TelemetryBroker, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler) as client:
        name = MetricName("orders", "my-shop")
        with pytest.raises(ValueError, match="is one of the client's own"):
            client.register_metric(TOTAL, lambda: 1)
        client.register_metric(name, lambda: 42.0, kind=COUNTER)
        until(handler, lambda: 42.0 in broker.totals)
        client.unregister_metric(name)
        seen = len(broker.pushed)
        until(handler, lambda: len(broker.pushed) > seen + 2)
        assert len(total_of(broker.pushed[-1][1])) == 1


def test_it_is_off_if_the_option_says_so(broker: TelemetryBroker, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler, enable_metrics_push=False) as client:
        client.register_metric(MetricName("orders", "my-shop"), lambda: 42.0)
        with pytest.raises(TelemetryUnavailableError, match="enable_metrics_push is False"):
            client.instance_id()
        client.update_cluster()
    assert broker.asked == []


def test_a_broker_that_takes_no_metrics(handler: Handler) -> None:
    with ScriptedBroker() as broker, KafkaClient(broker.hosts, handler=handler) as client:
        with pytest.raises(TelemetryUnavailableError, match="no broker of this cluster takes metrics"):
            client.instance_id()
    with pytest.raises(ClientClosedError):
        client.instance_id()


def test_clients_of_ordinary_brokers_load_nothing_of_it() -> None:
    program = (
        "import sys\nfrom pykafka import KafkaClient\nwith KafkaClient(sys.argv[1]) as client:\n    client.update_cluster()\n"
        "print([name for name in sys.modules if 'telemetry' in name], client.cluster.kept)"
    )
    with ScriptedBroker() as broker:
        command = [sys.executable, "-c", program, broker.hosts]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "[] {}\n"), done.stderr


def test_a_broker_that_gives_no_id(broker: TelemetryBroker, handler: Handler) -> None:
    broker.ask_errors = [-1] * 100
    with KafkaClient(broker.hosts, handler=handler) as client, pytest.raises(ResponseTimeoutError, match="0.1 s"):
        client.instance_id(timeout=0.1)


def test_close_does_not_wait_for_a_silent_broker(
    broker: TelemetryBroker, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "LAST_PUSH_S", 0.2)
    silent: list[bool] = []

    def damage(request: Any, frame: bytes) -> bytes:
        while request is wire.PushTelemetryRequest and silent:
            time.sleep(0.05)
        return frame

    broker.damage = damage
    client = KafkaClient(broker.hosts, handler=handler)
    until(handler, lambda: broker.pushed)
    silent.append(True)
    seen = len(broker.pushed)
    until(handler, lambda: len(broker.pushed) > seen)
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 2
    silent.clear()


def test_a_dropped_client_is_freed(broker: TelemetryBroker, handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "OWNER_POLL_INTERVAL_S", 0.05)
    client = KafkaClient(broker.hosts, handler=handler)
    until(handler, lambda: broker.pushed)
    pusher = telemetry.telemetry_of(client.cluster)
    worker = pusher._worker
    assert worker is not None
    cluster = weakref.ref(client.cluster)
    del client, pusher
    gc.collect()
    until(handler, lambda: cluster() is None)
    until(handler, lambda: not worker.is_alive())


@pytest.mark.no_loop("forks")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_a_client_of_its_own(broker: TelemetryBroker, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler) as client:
        until(handler, lambda: broker.pushed)
        asked = len(broker.asked)

        child = os.fork()
        if not child:
            status = 1
            try:
                client.update_cluster()
                status = 0 if client.instance_id() == ID else 2
                client.close()
            finally:
                os._exit(status)
        until(handler, lambda: len(broker.asked) > asked)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(broker.asked) == asked + 1
        assert broker.asked[-1].client_instance_id == UUID(int=0)
        seen = len(broker.pushed)
        until(handler, lambda: len(broker.pushed) > seen)
        assert client.instance_id() == ID
