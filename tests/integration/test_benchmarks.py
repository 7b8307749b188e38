"""Tiny workloads, done by every client of the benchmarks, each in its process as in earnest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.running import Access, Line, Runner
from benchmarks.workloads import IN_PROCESS, WORKLOADS
from tests.brokers import KafkaCluster

pytestmark = pytest.mark.needs("latest")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["produce-100B-acks-all", "consume-100B", "consume-batch-100B"])
def test_every_client_does_a_workload_and_is_checked(kafka: KafkaCluster, name: str) -> None:
    lines: list[Line] = []
    workload = replace(WORKLOADS[name], messages=6000, clients=IN_PROCESS)
    assert Runner(Access({"PLAINTEXT": kafka.hosts}), lines.append).run([workload], repeat=1) == []
    assert [(line["client"], line.get("error")) for line in lines] == [(client, None) for client in IN_PROCESS]
    assert all(line["measures"]["rate"] > 0 for line in lines)
    assert all(line["measures"]["cpu_per_million"] > 0 for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["asyncio-produce", "asyncio-consume", "callbacks-any", "parallel-key", "transactions-1000-100B"]
)
def test_loops_callbacks_and_parallel_work_are_measured(kafka: KafkaCluster, name: str) -> None:
    lines: list[Line] = []
    workload = replace(WORKLOADS[name], messages=3000)
    assert Runner(Access({"PLAINTEXT": kafka.hosts}), lines.append).run([workload], repeat=1) == []
    assert [(line["client"], line.get("error")) for line in lines] == [(client, None) for client in workload.clients]


@pytest.mark.slow
def test_endurance_says_what_has_grown(kafka: KafkaCluster) -> None:
    lines: list[Line] = []
    workload = replace(WORKLOADS["endurance"], messages=20_000)
    assert Runner(Access({"PLAINTEXT": kafka.hosts}), lines.append).run([workload], repeat=1) == []
    assert [(line["client"], line.get("error")) for line in lines] == [(client, None) for client in workload.clients]
    assert all({"rss_drift_mib", "more_threads", "more_descriptors"} <= set(line["measures"]) for line in lines)


def test_what_there_is_no_time_for_is_left_out_and_named(kafka: KafkaCluster) -> None:
    lines: list[Line] = []
    left_out = Runner(Access({"PLAINTEXT": kafka.hosts}), lines.append).run(
        [WORKLOADS["consume-100B"]], repeat=2, minutes=0
    )
    assert left_out == ["consume-100B, repetition 1", "consume-100B, repetition 2"]
    assert lines == []


def test_a_run_that_fails_is_a_line_too(kafka: KafkaCluster) -> None:
    lines: list[Line] = []
    workload = replace(WORKLOADS["sync-latency"], task="no_such_task", clients=("pykafka",))
    Runner(Access({"PLAINTEXT": kafka.hosts}), lines.append).run([workload], repeat=1)
    assert "no_such_task" in lines[0]["error"]
