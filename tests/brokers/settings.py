"""The property files of brokers and ZooKeeper, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.brokers.certificates import Certificates
from tests.brokers.releases import Release

HOST = "127.0.0.1"


class Listener(NamedTuple):
    """One listener of a broker.

    :param name: as its settings name it
    :param protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
    :param host: as clients are told
    """

    name: str
    protocol: str
    port: int
    host: str = HOST


def properties(settings: Mapping[str, object]) -> str:
    """Write settings as a Java property file."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def common(brokers: int) -> dict[str, object]:
    """Return settings that make a broker small, quick and safe for a cluster of that size."""
    copies = min(3, brokers)
    return {
        # Each thread of a broker that has nothing to do wakes three times a second, and of these there is a set a listener.
        "num.network.threads": 1,
        "num.io.threads": 2,
        "background.threads": 1,
        "num.partitions": 1,
        "default.replication.factor": copies,
        "min.insync.replicas": 1,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": 5,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": min(2, copies),
        "transaction.state.log.num.partitions": 5,
        "group.initial.rebalance.delay.ms": 0,
        # By default 128 MiB of the heap.
        "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
        "log.cleaner.threads": 1,
        "log.cleaner.backoff.ms": 1000,
        # A hundred years: tests give messages times of 1970, and half a minute after its start, then every five, a broker
        # deletes what is too old.
        "log.retention.hours": 100 * 365 * 24,
        "controlled.shutdown.enable": "true",
        # By default not before 1.0.
        "delete.topic.enable": "true",
    }


def kraft(
    number: int, directory: Path, listeners: Sequence[Listener], controllers: Mapping[int, int]
) -> dict[str, object]:
    """List the settings of a node that is broker and controller, without ZooKeeper."""
    protocols = "".join(f",{one.name}:{one.protocol}" for one in listeners)
    return {
        "process.roles": "broker,controller",
        "node.id": number,
        "controller.quorum.voters": ",".join(f"{node}@{HOST}:{port}" for node, port in controllers.items()),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT{protocols}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": _bound(listeners) + f",CONTROLLER://{HOST}:{controllers[number]}",
        "advertised.listeners": _told(listeners),
        "log.dirs": directory / f"data-{number}",
        # Elections and fencing at the pace of tests: a killed broker is noticed in seconds.
        "controller.quorum.election.timeout.ms": 1000,
        "controller.quorum.fetch.timeout.ms": 2000,
        "broker.heartbeat.interval.ms": 1000,
        "broker.session.timeout.ms": 4000,
        # By default a controller writes a record that says nothing twice a second, and all nodes fetch and store it: a third
        # of the CPU time of an idle cluster.
        "metadata.max.idle.interval.ms": 0,
        # Groups of the next-generation protocol share out at once, and members hear of it in a moment.
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": 250,
        "group.consumer.min.session.timeout.ms": 1000,
        "group.consumer.min.assignment.interval.ms": 0,
        "group.consumer.assignment.interval.ms": 0,
        "share.coordinator.state.topic.replication.factor": min(3, len(controllers)),
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 5,
    }


def classic(
    release: Release, number: int, directory: Path, listeners: Sequence[Listener], zookeeper_port: int
) -> dict[str, object]:
    """List the settings of a broker that needs ZooKeeper."""
    settings: dict[str, object] = {
        "broker.id": number,
        "log.dirs": directory / f"data-{number}",
        "zookeeper.connect": f"{HOST}:{zookeeper_port}",
        "zookeeper.session.timeout.ms": 6000,
        "zookeeper.connection.timeout.ms": 30000,
        # So that the first group need not wait for a log of 50 partitions to be made.
        "offsets.topic.num.partitions": 5,
    }
    if release.numbers < (0, 9):
        return settings | {"host.name": HOST, "advertised.host.name": HOST, "port": listeners[0].port}
    if any(one.name != one.protocol for one in listeners):
        settings["listener.security.protocol.map"] = ",".join(f"{one.name}:{one.protocol}" for one in listeners)
    return settings | {"listeners": _bound(listeners), "advertised.listeners": _told(listeners)}


def tls(certificates: Certificates) -> dict[str, object]:
    """List the settings of the listeners with TLS; clients need no certificate unless `ssl.client.auth` says so."""
    return {
        "ssl.keystore.location": certificates.keystore,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": certificates.password,
        "ssl.key.password": certificates.password,
        "ssl.truststore.location": certificates.truststore,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.password": certificates.password,
        # Releases before 2.0 do not know the algorithm by which later ones check host names.
        "ssl.endpoint.identification.algorithm": "",
    }


def zookeeper(directory: Path, port: int) -> dict[str, object]:
    """List the settings of a ZooKeeper server."""
    return {
        "dataDir": directory / "zookeeper",
        "clientPort": port,
        "clientPortAddress": HOST,
        "maxClientCnxns": 0,
        "tickTime": 1000,
        "admin.enableServer": "false",
    }


def logging_options(release: Release, directory: Path, name: str) -> Sequence[str]:
    """Write the logging configuration of one process, and return the JVM options that use it."""
    log = directory / f"{name}.log"
    if release.kraft:
        path = directory / f"{name}-log4j2.properties"
        path.write_text(
            "appender.file.type=File\nappender.file.name=file\n"
            f"appender.file.fileName={log}\n"
            "appender.file.layout.type=PatternLayout\nappender.file.layout.pattern=%d %p %c %m%n\n"
            "rootLogger.level=INFO\nrootLogger.appenderRef.file.ref=file\n"
        )
        # Java management beans of log4j cost start-up time and nobody reads them.
        return (f"-Dlog4j2.configurationFile={path}", "-Dlog4j2.disableJmx=true")
    path = directory / f"{name}-log4j.properties"
    path.write_text(
        "log4j.rootLogger=INFO, file\nlog4j.appender.file=org.apache.log4j.FileAppender\n"
        f"log4j.appender.file.File={log}\n"
        "log4j.appender.file.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.file.layout.ConversionPattern=%d %p %c %m%n\n"
    )
    return (f"-Dlog4j.configuration={path.as_uri()}",)


def _bound(listeners: Sequence[Listener]) -> str:
    return ",".join(f"{one.name}://{HOST}:{one.port}" for one in listeners)


def _told(listeners: Sequence[Listener]) -> str:
    return ",".join(f"{one.name}://{one.host}:{one.port}" for one in listeners)
