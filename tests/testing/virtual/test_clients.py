"""Clients and the fake cluster in one thread and in virtual time; one seed is one history."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import DeliveryUnknownError, MessagesNotDelivered
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler

ROOT = Path(__file__).resolve().parents[3]
#: How many seeds are run twice: 200 take half a minute.
SEEDS = int(os.environ.get("PYKAFKA_SEEDS", "20"))


def _histories(faults: bool, **environment: str) -> list[str]:
    """Run the seeds in a process of their own; return their digests with times and results."""
    command = [sys.executable, "-m", "tests.support.small_seed", "--count", str(SEEDS)]
    done = subprocess.run(
        command + ["--faults"] * faults,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[:-1]  # the last line says what they took


@pytest.mark.parametrize("faults", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["quiet", "faults"])
def test_one_seed_is_one_history(faults: bool) -> None:
    """Byte for byte and millisecond for millisecond, in another process, and from the sources of compiled modules."""
    first = _histories(faults, PYTHONHASHSEED="0")
    assert len(set(first)) == SEEDS
    assert all(line.endswith("200 read") for line in first) or faults
    assert _histories(faults, PYTHONHASHSEED="0", PYKAFKA_PURE_PYTHON="1") == first


@pytest.mark.parametrize(("protocol", "api"), [("classic", "Heartbeat"), ("consumer", "ConsumerGroupHeartbeat")])
def test_a_silent_member_is_put_out_after_a_minute(
    scheduler: Scheduler, virtual: VirtualHandler, protocol: str, api: str
) -> None:
    """A minute of virtual time, for which nobody waits."""

    def program() -> int:
        with FakeCluster(3, {"orders": 4}, handler=virtual) as cluster:
            cluster.set_group_settings(consumer_session_timeout_ms=60_000)
            options: dict[str, Any] = {} if protocol == "consumer" else {"session_timeout_ms": 60_000}
            with (
                KafkaClient(cluster.hosts, handler=virtual) as dead,
                KafkaClient(cluster.hosts, handler=virtual) as client,
                dead.consumer("orders", group="g", protocol=protocol, **options) as lost,
                client.consumer("orders", group="g", protocol=protocol, **options) as consumer,
            ):
                while len(lost.assignment()) < 4:
                    lost.poll(timeout=1)
                silent: list[str] = []

                def is_silent(request: Any) -> bool:
                    if not silent:
                        silent.append(request.member_id)
                    return bool(request.member_id == silent[0])

                cluster.cut(api, times=1000, when=is_silent)
                while not silent:
                    virtual.sleep(1)
                began = scheduler.now_ms()
                while len(consumer.assignment()) < 4:
                    consumer.poll(timeout=1)
                return scheduler.now_ms() - began

    began = time.process_time()
    assert 50_000 < scheduler.run(program) < 75_000
    assert time.process_time() - began < 5


@pytest.mark.parametrize("api", ["Produce", "InitProducerId"])
def test_close_keeps_its_timeout_though_a_sender_waits_for_a_broker(
    scheduler: Scheduler, virtual: VirtualHandler, api: str
) -> None:
    """A sender that waits for an answer does not prolong it, and sends nothing afterwards that was reported as failed."""

    def program() -> tuple[int, Any, int]:
        with (
            FakeCluster(1, {"t": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            producer = client.producer()
            client.topics["t"]
            hold = cluster.hold(api)
            delivery = producer.produce("t", b"late")
            began = scheduler.now_ms()
            with pytest.raises(MessagesNotDelivered):
                producer.close(timeout=1)
            took = scheduler.now_ms() - began
            hold.release()
            virtual.sleep(5)
            stored = client.topics["t"].latest_available_offsets()[0].offset[0]
            return took, delivery.error, stored

    took, error, stored = scheduler.run(program)
    assert 1_000 <= took < 1_600
    assert stored == 0 or isinstance(error, DeliveryUnknownError)


def test_a_request_does_not_wait_for_replicas_beyond_the_delivery_timeout(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    def program() -> int:
        with (
            FakeCluster(1, {"t": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=1_000) as client,
            client.producer(delivery_timeout_ms=2_000) as producer,
        ):
            producer.produce("t", b"first").get(timeout=5)
            cluster.hold("Produce")
            began = scheduler.now_ms()
            with pytest.raises(DeliveryUnknownError):
                producer.produce("t", b"late").get(timeout=20)
            return scheduler.now_ms() - began

    assert scheduler.run(program) <= 3_100  # not the 10 s of ack_timeout_ms


def test_exactly_once_and_transactions(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    def program() -> list[bytes | None]:
        with FakeCluster(3, {"in": 2, "out": 2}, handler=virtual) as cluster:
            with KafkaClient(cluster.hosts, handler=virtual) as client:
                with client.producer(enable_idempotence=True) as producer:
                    for number in range(50):
                        producer.produce("in", b"%d" % number)
                options: dict[str, Any] = {
                    "group": "g",
                    "auto_offset_reset": "earliest",
                    "isolation_level": "read_committed",
                }
                copied = 0
                with (
                    client.producer(transactional_id="copier") as copier,
                    client.consumer("in", **options) as consumer,
                ):
                    while copied < 50:
                        with copier.transaction(consumer):
                            for record in consumer.poll(timeout=1):
                                copier.produce("out", record.value)
                                copied += 1
                options["group"] = "other"
                with client.consumer("out", **options) as consumer:
                    found: list[bytes | None] = []
                    while len(found) < 50:
                        found += [record.value for record in consumer.poll(timeout=1)]
                    return found

    assert sorted(scheduler.run(program), key=int) == [b"%d" % number for number in range(50)]
    assert scheduler.leftovers == []
    assert scheduler.errors == []
