"""The brokers of the job: embedded, a real Kafka started for it, or the user's own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from examples.flights.job import Job
from examples.flights.requirements import RequirementMissingError
from examples.flights.supervision import Interrupts, session
from pykafka import EmbeddedCluster, KafkaClient, KafkaException, NoBrokersAvailableError
from pykafka.admin import NewTopic
from pykafka.exceptions import UnsupportedVersion

#: How long the user's own broker may take to respond (ms).
PATIENCE_MS = 10_000


@contextlib.contextmanager
def brokers(choice: str, job: Job, interrupts: Interrupts) -> Iterator[Job]:
    """Yield the job with brokers and topics, for the length of the block.

    :param choice: "embedded", "kafka", "kafka-sasl" (TLS, and a login) or "host:port,host:port"
    :param job: names the topics
    :returns: the job with the brokers' addresses, and its topics' names made unique on the user's own brokers
    :raises RequirementMissingError: they cannot be started or reached
    """
    if choice == "embedded":
        with EmbeddedCluster(brokers=3, topics=job.topics) as cluster:
            yield replace(job, hosts=cluster.hosts)
    elif choice in ("kafka", "kafka-sasl"):
        with _real_kafka(job, interrupts, secure=choice == "kafka-sasl") as started:
            create_topics(started)
            yield started
    else:
        job = replace(job, hosts=choice, suffix=f"-{uuid.uuid4().hex[:8]}")
        create_topics(job)
        yield job


@contextlib.contextmanager
def _real_kafka(job: Job, interrupts: Interrupts, secure: bool) -> Iterator[Job]:
    """Start an Apache Kafka; the first time, download its jars by their Maven coordinates.

    :param secure: yield a job whose clients log in over TLS
    """
    environment = {**os.environ, "TMPDIR": str(job.work)}
    command = [sys.executable, "-m", "tests.brokers", *(["--sasl"] if secure else [])]
    pipe = subprocess.PIPE
    with session(interrupts, command, environment=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        hosts = process.stdout.readline().strip()
        if not hosts:
            raise RequirementMissingError(process.stderr.read().strip() or "Kafka did not start, without a word")
        if secure:
            yield _secured(job, process.stdout)
        else:
            yield replace(job, hosts=hosts)


def _secured(job: Job, lines: Iterable[str]) -> Job:
    """Write the properties of a client that logs in over TLS, and return the job that uses them.

    :param lines: of `python -m tests.brokers --sasl`: a name and its values in each, the token last
    """
    told: dict[str, list[str]] = {}
    for line in lines:
        name, *values = line.split()
        told.setdefault(name, values)
        if name == "token":
            break
    (hosts,), (user, password), (cafile,) = told["SASL_SSL"], told["user"], told["cafile"]
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    config = job.work / "client.properties"
    config.touch(0o600)
    config.write_text(
        f"bootstrap.servers={hosts}\n"
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={login} required username="{user}" password="{password}";\n'
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={cafile}\n"
    )
    return replace(job, hosts=hosts, config=config)


def create_topics(job: Job) -> None:
    """Create the job's topics on brokers that support CreateTopics; older ones create them on first use.

    :raises RequirementMissingError: no broker answers, or it refuses
    """
    try:
        with job.client(socket_timeout_ms=PATIENCE_MS) as client:
            _create(client, job.topics)
    except ValueError as error:
        raise RequirementMissingError(f"BROKER={job.hosts} is no address of a broker: {error}") from error
    except NoBrokersAvailableError as error:
        raise RequirementMissingError(
            f"no Kafka broker answers at {job.hosts}: start one, or leave BROKER out to use the embedded one ({error})"
        ) from error
    except KafkaException as error:
        raise RequirementMissingError(f"the brokers at {job.hosts} did not create the job's topics: {error}") from error


def _create(client: KafkaClient, topics: Mapping[str, int]) -> None:
    # Brokers choose the number of replicas since Kafka 2.4; CreateTopics exists since 0.10.1.
    for replication in (None, 1):
        with contextlib.suppress(UnsupportedVersion):
            wanted = [NewTopic(name, partitions, replication) for name, partitions in topics.items()]
            client.admin.create_topics(wanted, timeout_ms=PATIENCE_MS)
            return
    with client.producer() as producer:
        for name in topics:
            producer.partitions_for(name)  # the brokers create a topic that a producer asks for
