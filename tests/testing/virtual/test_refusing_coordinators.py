"""Members whose coordinators refuse them, or answer late, in virtual time: they ask at a measured pace, and get there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import ConfigResource
from pykafka.common import TopicPartition
from pykafka.exceptions import (
    GroupIdNotFound,
    KafkaException,
    NotCoordinatorForGroup,
    ResponseTimeoutError,
    TransactionUnfinishedError,
)
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler

GROUP, TOPIC = "readers", "orders"
#: How long brokers refuse, or how long a call may take until it has records (s), and the requests of an API meanwhile.
OUTAGE_S, WITHIN_S, REQUESTS_MAX = 20.0, 30.0, 45
#: How long a call may take besides the answers that it waits for (s).
SLACK_S = 0.6
PROTOCOLS: dict[str, dict[str, Any]] = {
    "consumer": {"protocol": "consumer"},
    "eager": {"protocol": "classic"},
    "cooperative": {"protocol": "classic", "assignor": "cooperative-sticky"},
    "auto": {},
}
JOINS = ("JoinGroup", "ConsumerGroupHeartbeat")
REFUSALS = [
    (JOINS, "COORDINATOR_LOAD_IN_PROGRESS"),
    (JOINS, "NOT_COORDINATOR"),
    (JOINS, "UNKNOWN_MEMBER_ID"),
    (JOINS, "FENCED_MEMBER_EPOCH"),
    (("FindCoordinator",), "COORDINATOR_NOT_AVAILABLE"),
    (("DescribeGroups",), "COORDINATOR_LOAD_IN_PROGRESS"),
]


def is_answered(protocol: str, apis: tuple[str, ...], error: str) -> bool:
    """Return whether coordinators give members of a protocol this error."""
    return protocol == "auto" or ("DescribeGroups" not in apis and (protocol == "consumer" or "EPOCH" not in error))


Program = Callable[[FakeCluster, KafkaClient], None]
Run = Callable[[Program], None]


@pytest.fixture
def run(scheduler: Scheduler, network: Network, virtual: VirtualHandler) -> Run:
    """Return a function that runs a program with a cluster of three brokers and a client."""

    def main(program: Program) -> None:
        with (
            FakeCluster(brokers=3, topics={TOPIC: 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_group_settings(initial_rebalance_delay_ms=0)
            with client.producer() as producer:
                producer.produce(TOPIC, b"one").get()
            program(cluster, client)

    def begin(program: Program) -> None:
        scheduler.run(lambda: main(program))
        assert scheduler.errors == []

    return begin


@pytest.mark.parametrize(
    ("protocol", "apis", "error"),
    [(protocol, *refusal) for protocol in PROTOCOLS for refusal in REFUSALS if is_answered(protocol, *refusal)],
)
def test_a_member_that_is_refused_asks_at_a_measured_pace(
    run: Run, virtual: VirtualHandler, protocol: str, apis: tuple[str, ...], error: str
) -> None:
    """A KIP-848 member that joined asked thousands of times a second, those of other protocols four times."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        consumer = client.consumer(TOPIC, group=GROUP, **PROTOCOLS[protocol])
        cluster.track_requests()
        for api in apis:
            cluster.fail(api, error, times=1_000_000)
        call = virtual.spawn(consumer.poll, timeout=OUTAGE_S + WITHIN_S)
        virtual.sleep(OUTAGE_S)
        counts = Counter(request.api for request in cluster.requests())
        assert call.is_alive()
        assert max(counts[api] for api in ("FindCoordinator", "DescribeGroups", *JOINS)) <= REQUESTS_MAX, counts
        cluster.clear_faults()
        assert call.join(WITHIN_S)
        assert consumer.assignment()
        consumer.close()

    run(program)


@pytest.mark.parametrize("api", ["FindCoordinator", "Metadata", "ApiVersions"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("slices", [1, 30], ids=["long", "short"])
def test_answers_that_take_seconds_come_all_the_same(
    run: Run, virtual: VirtualHandler, protocol: str, api: str, slices: int
) -> None:
    """Each step of a call asked anew, and its worker gave each broker two seconds: no coordinator was ever found."""

    def program(cluster: FakeCluster, _: KafkaClient) -> None:
        with KafkaClient(cluster.hosts, handler=virtual) as client:
            consumer = client.consumer(TOPIC, group=GROUP, **PROTOCOLS[protocol])
            cluster.fail(api, "NONE", times=1_000_000, latency_ms=3_000)
            assert any(consumer.poll(timeout=WITHIN_S / slices) for _ in range(slices))
            cluster.clear_faults()
            consumer.close()

    run(program)


def _reads(client: KafkaClient, timeout: float) -> Callable[[], object]:
    consumer: Any = client.consumer(TOPIC, group=GROUP, protocol="classic")

    def read() -> object:
        consumer.poll(timeout=timeout)
        return consumer.assignment()

    return read


def _begins(client: KafkaClient, timeout: float) -> Callable[[], object]:
    producer = client.producer(transactional_id="t")

    def begin() -> bool:
        producer.init_transactions(timeout)
        return True

    return begin


@pytest.mark.parametrize("make", [_reads, _begins])
@pytest.mark.parametrize("timeout", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("latency_s", [0.2, 0.4, 0.9, 2.0, 3.0])
def test_each_broker_is_asked_once_for_a_coordinator(
    run: Run, virtual: VirtualHandler, make: Callable[[KafkaClient, float], Any], timeout: float, latency_s: float
) -> None:
    """An answer that came after its broker's part of the time was lost: ten requests, and seven seconds more at the worst."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        call = make(client, timeout)
        cluster.track_requests()
        cluster.fail("FindCoordinator", "NONE", times=1_000, latency_ms=round(latency_s * 1000))
        began, done = virtual.now(), False
        while not done:
            with suppress(KafkaException):
                done = bool(call())
            assert virtual.now() - began < latency_s + timeout + SLACK_S
        asked = Counter(request.broker for request in cluster.requests("FindCoordinator"))
        assert set(asked.values()) == {1}
        cluster.clear_faults()

    run(program)


def test_a_late_answer_about_a_coordinator_that_has_refused_does_not_count(run: Run, virtual: VirtualHandler) -> None:
    """It names the former coordinator, as it was asked for before the group moved."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        cluster.set_coordinator(GROUP, 1)
        with cluster.hold("FindCoordinator") as held:
            for broker in client.cluster.brokers.values():
                with pytest.raises(ResponseTimeoutError):
                    client.cluster.coordinators.ask((GROUP, 0), broker, 100)
            held.await_met(3)
            cluster.set_coordinator(GROUP, 2)
            client.cluster.coordinators.refused(GROUP, client.cluster.brokers[1], NotCoordinatorForGroup())
        virtual.sleep(0.1)
        assert client.cluster.get_group_coordinator(GROUP, 1_000).id == 2

    run(program)


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.admin.list_group_offsets(GROUP, timeout_ms=5_000),
        lambda client: client.admin.describe_groups(GROUP, timeout_ms=5_000),
    ],
    ids=["one look-up", "one for each type of group"],
)
def test_admin_gets_past_a_broker_that_names_no_coordinator(
    run: Run, virtual: VirtualHandler, call: Callable[[KafkaClient], object]
) -> None:
    """The first broker that it asked had all of its time: a silent one of three made every third call fail."""

    def program(cluster: FakeCluster, _: KafkaClient) -> None:
        cluster.set_coordinator(GROUP, 1)
        longest = 0.0
        with cluster.hold("FindCoordinator", broker=3):
            for _number in range(8):  # each client knows nothing of the broker
                with KafkaClient(cluster.hosts, handler=virtual) as client:
                    began = virtual.now()
                    with suppress(GroupIdNotFound):  # whichever type is asked for
                        call(client)
                    longest = max(longest, virtual.now() - began)
        assert 2.0 < longest < 4.0

    run(program)


@pytest.mark.parametrize(
    "error", ["SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH", "SHARE_SESSION_LIMIT_REACHED"]
)
def test_a_share_session_that_is_refused_begins_anew_at_a_measured_pace(
    run: Run, virtual: VirtualHandler, error: str
) -> None:
    """A leader that knew no new session either was asked two thousand times a second."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        client.admin.alter_configs({ConfigResource.group(GROUP): {"share.auto.offset.reset": "earliest"}})
        with client.share_consumer(TOPIC, group=GROUP) as consumer:
            cluster.track_requests()
            cluster.fail("ShareFetch", error, times=1_000_000)
            call = virtual.spawn(consumer.poll, timeout=OUTAGE_S + WITHIN_S)
            virtual.sleep(OUTAGE_S)
            counts = Counter(request.api for request in cluster.requests())
            assert call.is_alive()
            assert 2 < counts["ShareFetch"] <= REQUESTS_MAX, counts
            assert counts["ShareAcknowledge"] <= REQUESTS_MAX, counts
            cluster.clear_faults()
            assert call.join(WITHIN_S)

    run(program)


@pytest.mark.parametrize("call", ["begin_transaction", "init_transactions"])
@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS"])
def test_a_begin_that_is_not_complete_in_time_says_what_to_do(run: Run, call: str, error: str) -> None:
    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with client.producer(transactional_id="billing") as producer:
            failure = cluster.fail("InitProducerId", error, 1000)
            with pytest.raises(
                TransactionUnfinishedError, match=rf"call {call}\(\) again. The last error was.*{error}"
            ):
                getattr(producer, call)(timeout=0.3)
            failure.end()
            getattr(producer, call)()

    run(program)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("api", ["Metadata", "DescribeConfigs"])
def test_a_call_does_not_wait_for_the_reason_why_there_is_no_coordinator(
    run: Run, virtual: VirtualHandler, protocol: str, api: str
) -> None:
    """Brokers that hung took a second for each question about the internal topic, whatever the time of the call."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        took: list[float] = []

        def timed(call: Callable[[], object], timeout: float) -> None:
            began = virtual.now()
            with suppress(KafkaException):
                call()
            took.append(virtual.now() - began - timeout)

        with client.consumer(TOPIC, group=GROUP, **PROTOCOLS[protocol]) as consumer:
            assert consumer.poll(timeout=WITHIN_S) is not None
            consumer.unsubscribe()
            consumer.subscribe(TOPIC)
            cluster.fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=10_000)
            cluster.fail("OffsetCommit", "NOT_COORDINATOR", times=10_000)
            with cluster.hold(api):
                for _ in range(40):
                    timed(lambda: consumer.poll(timeout=0.3), 0.3)
                timed(lambda: consumer.commit({TopicPartition(TOPIC, 0): 1}, timeout=0.3), 0.3)
            cluster.heal()
            consumer.unsubscribe()
        assert max(took) < SLACK_S

    run(program)


def test_a_member_that_hears_while_it_joins_that_it_is_out_gives_up_its_partitions_at_once(
    run: Run, virtual: VirtualHandler
) -> None:
    """It gave them up behind the rebalance only, returned records of them until then, and could not commit those."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        lost: list[float] = []
        listener = SimpleNamespace(on_lost=lambda _: lost.append(virtual.now()))
        options = {"heartbeat_interval_ms": 50, "listener": listener, **PROTOCOLS["cooperative"]}
        consumer = client.consumer(TOPIC, group=GROUP, **options)
        assert consumer.poll(timeout=WITHIN_S)
        consumer.enforce_rebalance()
        cluster.cut("JoinGroup", "before", times=1)
        cluster.fail("Heartbeat", "UNKNOWN_MEMBER_ID", times=1)
        cluster.fail("JoinGroup", "NONE", times=1_000_000, latency_ms=10_000)
        began = virtual.now()
        with client.producer() as producer:
            producer.produce(TOPIC, b"two").get()
        while not lost and virtual.now() < began + WITHIN_S:
            consumer.poll(timeout=0.1)
        assert lost
        assert lost[0] < began + 2
        assert not consumer.assignment()
        cluster.clear_faults()
        assert consumer.poll(timeout=WITHIN_S)
        assert len(lost) == 1
        consumer.close()

    run(program)
