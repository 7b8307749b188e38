"""Execution of workloads: topics created and filled, a new process per run, clients in turn, results checked."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from benchmarks.clients import CLIENTS, client
from benchmarks.clients.base import Seen
from benchmarks.job import Job, Stopwatch, number_of, numbered, payloads, peak_rss_mib, quantile
from benchmarks.workloads import Workload

ROOT = Path(__file__).resolve().parents[1]
#: A run fails if it takes so much longer than its workload's estimate (s).
RUN_TIMEOUT_S = 400
ADMIN_TIMEOUT_S = 60
Line = dict[str, Any]


class RunFailed(Exception):
    """Raised when a run ends with an error, or without all its work."""


class Access(NamedTuple):
    """How clients reach the brokers' listeners.

    :param hosts: by the name of a listener
    :param cafile: authority of the brokers' certificates
    :param user: name and password for SCRAM-SHA-512
    """

    hosts: Mapping[str, str]
    cafile: str | None = None
    user: tuple[str, str] | None = None

    def of(self, listener: str) -> dict[str, Any]:
        """Return the fields of a `Job` for a listener.

        :raises RunFailed: the brokers do not have it
        """
        if listener not in self.hosts:
            raise RunFailed(f"the brokers have no listener {listener}: leave --hosts out")
        return {
            "hosts": self.hosts[listener],
            "cafile": self.cafile if listener.endswith("SSL") else None,
            "user": self.user if listener.startswith("SASL") else None,
        }


class Topics:
    """The topics of a benchmark, created, filled and counted by confluent-kafka: no measured client verifies itself.

    :param hosts: of the brokers
    """

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts
        self._admin = AdminClient({"bootstrap.servers": hosts})
        self._filled: dict[tuple[object, ...], tuple[str, ...]] = {}

    def fresh(self, workload: Workload) -> tuple[str, ...]:
        """Create empty topics."""
        prefix = f"bench-{uuid.uuid4().hex[:8]}"
        names = tuple(f"{prefix}-{number}" for number in range(workload.topics))
        wanted = [NewTopic(name, workload.partitions, 1, config={"retention.ms": "-1"}) for name in names]
        for future in self._admin.create_topics(wanted, operation_timeout=ADMIN_TIMEOUT_S).values():
            future.result(ADMIN_TIMEOUT_S)
        deadline = time.monotonic() + ADMIN_TIMEOUT_S
        while not self._led(set(names), workload.partitions):
            if time.monotonic() > deadline:
                raise RunFailed(f"after {ADMIN_TIMEOUT_S} s not all partitions of {prefix} have a leader")
            time.sleep(0.1)
        return names

    def _led(self, names: set[str], partitions: int) -> bool:
        topics = self._admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics
        found = [topics[name].partitions.values() for name in names if name in topics]
        return len(found) == len(names) and all(
            len(some) == partitions and all(partition.leader >= 0 for partition in some) for some in found
        )

    def filled(self, workload: Workload, messages: int) -> tuple[str, ...]:
        """Return topics with so many messages, created on first use."""
        key = (workload.size, workload.partitions, workload.topics, workload.codec, workload.keyed, messages)
        if key not in self._filled:
            names = self.fresh(workload)
            fill(self.hosts, names, workload, messages)
            self.check(names, workload, messages)
            self._filled[key] = names
        return self._filled[key]

    def drop(self, names: tuple[str, ...]) -> None:
        """Delete topics, to free the disk."""
        for future in self._admin.delete_topics(list(names), operation_timeout=ADMIN_TIMEOUT_S).values():
            future.result(ADMIN_TIMEOUT_S)

    def count(self, names: tuple[str, ...], partitions: int) -> int:
        """Return the number of messages in topics, by their end offsets."""
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(name, number): latest for name in names for number in range(partitions)}
        return sum(future.result(ADMIN_TIMEOUT_S).offset for future in self._admin.list_offsets(asked).values())

    def check(self, names: tuple[str, ...], workload: Workload, messages: int) -> None:
        """Compare the number of produced messages with the end offsets.

        :raises RunFailed: they differ
        """
        if (found := self.count(names, workload.partitions)) != messages:
            raise RunFailed(f"{messages} messages were produced, but {', '.join(names[:3])} have {found}")


def fill(hosts: str, names: tuple[str, ...], workload: Workload, messages: int) -> None:
    """Write numbered messages, in turn to all topics and partitions, in large batches."""
    failed: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": hosts,
            "linger.ms": 1000,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 512 * 1024,
            "compression.type": workload.codec,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _message: failed.append(error) if error else None,
        }
    )
    pool = payloads(workload.size)
    for number in range(messages):
        key = b"%08d" % (number % 100_000) if workload.keyed else None
        name, partition = names[number % len(names)], number // len(names) % workload.partitions
        while True:
            try:
                producer.produce(name, numbered(workload.size, number, pool), key, partition)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120) or failed:
        raise RunFailed(f"{names[0]} could not be filled: {failed[:3] or 'no answer in 120 s'}")


def run_one(name: str, task: str, job: Job) -> Line:
    """Run a job in this process.

    :param name: of the client
    :param task: which method of its adapter
    :raises RunFailed: it did not do all its work
    """
    watch = Stopwatch()
    found = getattr(client(name), task)(job, watch)
    if isinstance(found, dict):
        measures = found
    elif isinstance(found, list):
        if len(found) != job.messages:
            raise RunFailed(f"{len(found)} of {job.messages} messages were timed")
        measures = {f"p{100 * share:g}_ms": 1000 * quantile(found, share) for share in (0.5, 0.99)}
        measures["cpu_us"] = 1e6 * watch.cpu / job.messages
    else:
        if isinstance(found, Seen):
            check_seen(found, job)
        measures = {
            "rate": job.messages / watch.wall,
            "cpu_per_million": watch.cpu * 1e6 / job.messages,
            "millions_per_cpu_s": job.messages / 1e6 / watch.cpu,
        }
    return {"wall_s": watch.wall, "cpu_s": watch.cpu, "peak_rss_mib": peak_rss_mib(), "measures": measures}


def check_seen(seen: Seen, job: Job) -> None:
    """Compare a consumer's messages with the runner's: their number, and one of the last.

    :raises RunFailed: it is something else
    """
    if seen.messages != job.messages:
        raise RunFailed(f"{seen.messages} messages were read, not {job.messages}")
    tail = job.messages - job.partitions * len(job.topics)
    if seen.last is None or number_of(seen.last) < tail:
        raise RunFailed(f"the last message read is {seen.last!r}, and not one of the last")


class Runner:
    """A runner of workloads, which passes on one line per run.

    :param access: to the brokers
    :param emit: gets each line
    :param spark_python: the Python of Spark's runs
    """

    def __init__(self, access: Access, emit: Callable[[Line], None], spark_python: str = sys.executable) -> None:
        self.topics = Topics(access.hosts["PLAINTEXT"])
        self._access = access
        self._emit = emit
        self._spark_python = spark_python
        self._commit = commit()

    def run(self, workloads: list[Workload], repeat: int, minutes: float | None = None) -> list[str]:
        """Run everything `repeat` times, the clients in turn; return the repetitions left out for lack of time.

        :param minutes: after which no repetition of a workload is started
        """
        start = time.monotonic()
        left_out = []
        for repetition in range(repeat):
            for workload in workloads:
                if minutes is not None and time.monotonic() - start + workload.seconds > 60 * minutes:
                    left_out.append(f"{workload.name}, repetition {repetition + 1}")
                    continue
                # Rotate the order, so that another client comes first next time.
                shift = repetition % len(workload.clients)
                for name in workload.clients[shift:] + workload.clients[:shift]:
                    self._emit(self.line(workload, name, repetition))
        return left_out

    def line(self, workload: Workload, name: str, repetition: int) -> Line:
        """Run one client once; a failure is a line as well."""
        head: Line = {
            "workload": workload.name,
            "client": name,
            "repetition": repetition,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "load": os.getloadavg()[0],
            "commit": self._commit,
            "parameters": {key: value for key, value in asdict(workload).items() if key not in ("clients", "name")},
        }
        try:
            return head | self._measure(workload, name)
        except (RunFailed, subprocess.TimeoutExpired) as error:
            return head | {"error": str(error)}

    def _measure(self, workload: Workload, name: str) -> Line:
        messages = workload.messages // CLIENTS[name].slowness.get(workload.task, 1)
        access = self._access.of(workload.listener)
        filled = workload.reads
        names = self.topics.filled(workload, messages) if filled else self.topics.fresh(workload)
        job = Job(
            topics=names,
            messages=messages,
            size=workload.size,
            partitions=workload.partitions,
            codec=workload.codec,
            acks=workload.acks,
            idempotent=workload.idempotent,
            columns=workload.columns,
            **access,
        )
        try:
            found = self._spawn(name, workload.task, job, RUN_TIMEOUT_S + workload.seconds)
            if workload.writes:
                self.topics.check(names, workload, messages)
        finally:
            if not filled:
                self.topics.drop(names)
        return {"messages": messages, **found}

    def _spawn(self, name: str, task: str, job: Job, timeout_s: float) -> Line:
        python = self._spark_python if name.startswith("spark-") else sys.executable
        request = json.dumps({"client": name, "task": task, "job": asdict(job)})
        done = subprocess.run(
            [python, "-m", "benchmarks", "one", request],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), "BENCHMARK_TASK": task} | dict(CLIENTS[name].environment),
        )
        if done.returncode:
            raise RunFailed(f"{name} failed: {done.stderr[-2000:]}")
        found: Line = json.loads(done.stdout.splitlines()[-1])
        return found


def one(request: str) -> Line:
    """Run the job that another process sends in JSON; return its line."""
    asked = json.loads(request)
    job = asked["job"]
    job["topics"] = tuple(job["topics"])
    job["user"] = tuple(job["user"]) if job["user"] is not None else None
    job["columns"] = tuple(job["columns"]) if job["columns"] is not None else None
    found = run_one(asked["client"], asked["task"], Job(**job))
    adapter = client(asked["client"])
    versions = {"python": platform.python_version()} | {name: version(name) for name in adapter.distributions}
    return found | {"versions": versions, "tuning": adapter.tunings.get(asked["task"], "")}


def commit() -> str:
    """Return the measured commit; with a + if the checkout differs from it."""
    asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(asked, check=False, capture_output=True, text=True, cwd=ROOT)
    return done.stdout.strip() or "unknown"
