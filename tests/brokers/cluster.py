"""A real Kafka cluster on 127.0.0.1."""

from __future__ import annotations

import fcntl
import os
import random
import re
import shutil
import socket
import struct
import tempfile
import uuid
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO

from kazoo.client import KazooClient

from tests.brokers import sasl as authentication
from tests.brokers import settings
from tests.brokers.archives import class_archive, compiled, recording
from tests.brokers.certificates import Certificates, make_certificates
from tests.brokers.formatting import new_id, template_of, write_log_directories
from tests.brokers.jars import BrokerSetupError, cache_directory, classpath
from tests.brokers.kerberos import BROKER_HOST, Kdc
from tests.brokers.process import JavaProcess, wait_until
from tests.brokers.releases import LATEST, Release, release
from tests.brokers.sasl import Sasl
from tests.brokers.tokens import TokenKey, unsecured_token

#: Seconds that a cluster may take until all brokers answer; an idle machine needs 3 to 8.
START_TIMEOUT_S = 90.0
# Below the ports that the kernel gives to outgoing connections (net.ipv4.ip_local_port_range), so that a broker that
# is down does not lose its port to one of those.
_PORTS = range(20000, 32000)
#: ZooKeeper of the brokers at a port: before 0.10.1 they take topics from there alone.
ZOOKEEPERS: dict[int, str] = {}


class KafkaCluster:
    """Run Apache Kafka brokers as processes of this machine during the `with` block.

    Brokers are numbered from 1. Releases from 4.0 on run as broker and controller in one, older ones beside a
    ZooKeeper. On 0.8.2 a topic `first-topic` exists from the start, since without one its brokers name no brokers.

    :param version: which release
    :param brokers: how many
    :param config: settings of the brokers, beside or in the place of ours
    :param each: settings of single brokers, by number
    :param tls: True: a second listener speaks TLS (from 0.9 on), at `tls_hosts`, with `certificates`
    :param sasl: further listeners ask for SASL (from 0.10.2 on) with and without TLS, for these users; their addresses are
        `hosts_of("SASL_SSL")` and so on, and `mechanisms` can be used there
    :param heap_mb: of each broker
    :param directory: where it keeps data and logs; None: a temporary one, removed by `close()`
    :param jars: a directory of jars for the brokers, beside their own: plugins
    :param quick: start in little CPU time, at the cost of throughput: False is for who measures that
    :raises BrokerSetupError: Java, the jars or a port are missing, or a broker does not come up
    """

    def __init__(
        self,
        version: str = LATEST,
        brokers: int = 1,
        config: Mapping[str, object] | None = None,
        tls: bool = False,
        heap_mb: int = 512,
        directory: Path | None = None,
        quick: bool = True,
        sasl: Sasl | None = None,
        each: Mapping[int, Mapping[str, object]] | None = None,
        jars: Path | None = None,
    ) -> None:
        self.release: Release = release(version)
        self.config = dict(config or {})
        self.each = dict(each or {})
        self.broker_ids = list(range(1, brokers + 1))
        self.heap_mb = heap_mb
        self.sasl = sasl
        self._protocols = {"PLAINTEXT": "PLAINTEXT"}
        if tls or sasl is not None:
            self._protocols["SSL"] = "SSL"
        if sasl is not None:
            self._protocols |= authentication.listeners(self.release)
        #: Ports by listener and broker.
        self._ports: dict[str, dict[int, int]] = {name: {} for name in self._protocols}
        self._token_key: TokenKey | None = None
        #: The cluster's own, where `sasl` has `kerberos`.
        self.kdc: Kdc | None = None
        self.certificates: Certificates | None = None
        self.zookeeper_hosts = ""
        self._keep = directory is not None
        self.directory = directory or Path()
        self._log_directories: dict[int, list[Path]] = {}
        self._processes: dict[int, JavaProcess] = {}
        self._zookeeper: JavaProcess | None = None
        self._jars = Path()
        self._plugins = "" if jars is None else f":{jars}/*"
        # With the first compiler alone; the second one costs more than it saves a broker that does little.
        self._quick_options = ["-XX:TieredStopAtLevel=1"] if quick else []
        self._jvm_options: list[str] = []
        self._quick = quick

    @property
    def version(self) -> str:
        """Return the release that is running."""
        return self.release.version

    @property
    def ports(self) -> dict[int, int]:
        """Return the ports of the plain listeners, by broker."""
        return self._ports["PLAINTEXT"]

    @property
    def hosts(self) -> str:
        """Return the brokers' addresses: `host:port,host:port`, whether they are up or down."""
        return self.hosts_of("PLAINTEXT")

    @property
    def tls_hosts(self) -> str:
        """Return the brokers' addresses for TLS."""
        return self.hosts_of("SSL")

    @property
    def listeners(self) -> list[str]:
        """Return the names of the listeners: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, SHORT_PLAINTEXT, SHORT_SSL."""
        return list(self._protocols)

    def hosts_of(self, listener: str) -> str:
        """Return the brokers' addresses of a listener.

        :param listener: one of `listeners`; SHORT_PLAINTEXT and SHORT_SSL ask for SASL too, but their sessions are short,
            and they do not offer SCRAM-SHA-512
        """
        return ",".join(f"{self._host(listener)}:{port}" for port in self._ports[listener].values())

    def _host(self, listener: str) -> str:
        # Kerberos knows brokers by the names of their hosts.
        named = self.sasl is not None and self.sasl.kerberos and self._protocols[listener].startswith("SASL")
        return BROKER_HOST if named else settings.HOST

    @property
    def mechanisms(self) -> list[str]:
        """Return the mechanisms of the listeners with SASL."""
        assert self.sasl is not None, "this cluster was started without `sasl`"
        return authentication.mechanisms(self.release, self.sasl)

    @property
    def user(self) -> str:
        """Return the name of a user who may log in by PLAIN and SCRAM."""
        return next(iter(self._users))

    @property
    def password(self) -> str:
        """Return the password of that user."""
        return self._users[self.user]

    @property
    def _users(self) -> Mapping[str, str]:
        assert self.sasl is not None, "this cluster was started without `sasl`"
        return self.sasl.users

    @property
    def cafile(self) -> str:
        """Return the path of the certificate (PEM) of the authority that signed the brokers' certificates."""
        assert self.certificates is not None, "this cluster was started without `tls` and `sasl`"
        return str(self.certificates.cafile)

    def token(self, subject: str = "alice", lifetime_s: float = 300, **claims: object) -> str:
        """Return a token for OAUTHBEARER that the brokers take; before 3.1 they take unsigned ones alone.

        :param subject: name of the user
        :param lifetime_s: seconds from now on; negative: it has expired
        :param claims: further ones, or others than ours
        """
        if self.release.numbers < (3, 1):
            return unsecured_token(subject, lifetime_s, **claims)
        return self.token_key.token(subject, lifetime_s, **claims)

    @property
    def token_key(self) -> TokenKey:
        """Return the key that signs tokens for OAUTHBEARER."""
        assert self._token_key is not None, "this cluster was started without `sasl`"
        return self._token_key

    def __enter__(self) -> KafkaCluster:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Start everything and wait until all brokers answer."""
        self._jars = classpath(self.release.coordinates)
        if self._quick:
            self._quick_options += class_archive(self._jars, self._record)
        if not self._keep:
            self.directory = Path(tempfile.mkdtemp(prefix="pykafka-kafka-"))
        try:
            self._prepare()
            for process in self._processes.values():
                process.start()
            self._wait_for(self.broker_ids)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all processes at once, and remove their data; a second call does nothing."""
        for process in (*self._processes.values(), *([self._zookeeper] if self._zookeeper else [])):
            process.kill()
        if self.kdc is not None:
            self.kdc.kill()
        self._processes.clear()
        self._zookeeper = None
        if not self._keep and self.directory != Path():
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = Path()

    def start(self, broker: int) -> None:
        """Start a broker that was stopped or killed, at its old port, and wait until it answers."""
        if not self.release.kraft:
            self._wait_until_forgotten(broker)
        self._processes[broker].start()
        self._wait_for([broker])

    def stop(self, broker: int) -> None:
        """Shut a broker down cleanly: it first hands its leaderships over."""
        self._processes[broker].stop()

    def kill(self, broker: int) -> None:
        """Kill a broker (SIGKILL): the others notice when its session ends, after 4 s (6 s where ZooKeeper keeps it)."""
        self._processes[broker].kill()

    def move(self, *brokers: int, cleanly: bool = False) -> None:
        """Kill brokers, all at once, and start them again with their data at other ports; wait until they answer.

        :param cleanly: shut them down instead, one after another
        """
        for number in brokers:
            (self.stop if cleanly else self.kill)(number)
        fresh = iter(free_ports(len(brokers) * len(self._ports)))
        for number in brokers:
            path = self.directory / f"broker-{number}.properties"
            text = path.read_text()
            for ports in self._ports.values():
                old, ports[number] = ports[number], next(fresh)
                text = re.sub(rf":{old}\b", f":{ports[number]}", text)
                ZOOKEEPERS[ports[number]] = self.zookeeper_hosts
            path.write_text(text)
        for number in brokers:
            if not self.release.kraft:
                self._wait_until_forgotten(number)
            self._processes[number].start()
        self._wait_for(list(brokers))

    def pause(self, broker: int) -> None:
        """Pause a broker (SIGSTOP): it keeps its connections and answers nothing."""
        self._processes[broker].pause()

    def resume(self, broker: int) -> None:
        """Resume a paused broker."""
        self._processes[broker].resume()

    def pid(self, broker: int) -> int | None:
        """Return the process id of a broker that is running."""
        return self._processes[broker].pid

    def log(self, broker: int) -> str:
        """Return what a broker logged."""
        path = self.directory / f"broker-{broker}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def run_java(self, *arguments: str, timeout: float = 60.0) -> str:
        """Run a program of the release's jars, or a .java file against them, to its end; return its output.

        :param arguments: what follows `java -cp <jars>`
        :raises BrokerSetupError: it fails, or takes longer than `timeout` seconds
        """
        log = self.directory / f"java-{uuid.uuid4().hex}.out"
        options = [*self._options("tool"), *self._quick_options, "-Xmx256m"]
        sources = [Path(word) for word in arguments if word.endswith(".java")]
        path = os.pathsep.join([f"{self._jars}/*", *(str(compiled(source, self._jars)) for source in sources)])
        words = [Path(word).stem if word.endswith(".java") else word for word in arguments]
        process = JavaProcess([*options, "-cp", path, *words], log)
        process.start()
        status = process.wait(timeout)
        if status:
            raise BrokerSetupError(f"java {' '.join(arguments)} ended with {status}:\n{process.tail()}")
        return log.read_text(errors="replace")

    def _record(self, archive: Path) -> None:
        """Run a broker of this release that writes an archive of its classes."""
        cluster = KafkaCluster(self.version, quick=False)
        cluster._jvm_options.append(recording(archive))
        with cluster:
            cluster.stop(1)  # in order, since who is killed writes nothing

    def _prepare(self) -> None:
        count = len(self.broker_ids)
        free = iter(free_ports((len(self._protocols) + 1) * count + 2))
        self._ports = {name: dict(zip(self.broker_ids, free, strict=False)) for name in self._protocols}
        controllers = dict(zip(self.broker_ids, free, strict=False))
        secure: dict[str, object] = {}
        if "SSL" in self._protocols:
            self.certificates = make_certificates(self.directory)
            secure |= settings.tls(self.certificates)
        if self.sasl is not None:
            secure |= self._prepare_sasl(self.sasl, next(free))
        zookeeper_port = next(free)
        if not self.release.kraft:
            self._start_zookeeper(zookeeper_port)
        for ports in self._ports.values():
            ZOOKEEPERS.update(dict.fromkeys(ports.values(), self.zookeeper_hosts))
        for number in self.broker_ids:
            listeners = [
                settings.Listener(name, protocol, self._ports[name][number], self._host(name))
                for name, protocol in self._protocols.items()
            ]
            if self.release.kraft:
                own = settings.kraft(number, self.directory, listeners, controllers)
            else:
                own = settings.classic(self.release, number, self.directory, listeners, zookeeper_port)
            path = self.directory / f"broker-{number}.properties"
            given = self.config | dict(self.each.get(number, {}))
            whole = settings.common(count) | own | secure | given
            self._log_directories[number] = [Path(one) for one in str(whole["log.dirs"]).split(",")]
            path.write_text(settings.properties(whole))
            self._processes[number] = self._process(f"broker-{number}", self.heap_mb, "kafka.Kafka", str(path))
        if self.release.kraft:
            self._format()

    def _prepare_sasl(self, sasl: Sasl, kdc_port: int) -> dict[str, object]:
        jwks = self.directory / "jwks.json"
        self._token_key = TokenKey(self.directory / "issuer.key")
        jwks.write_text(self._token_key.jwks())
        if sasl.kerberos:
            self.kdc = Kdc(self.directory, kdc_port, self.user)
            self.kdc.start()
        self._jvm_options += authentication.jvm_options(self.release, sasl, self.directory, jwks, self.kdc)
        return authentication.settings(self.release, sasl, jwks, self.kdc)

    def _start_zookeeper(self, port: int) -> None:
        path = self.directory / "zookeeper.properties"
        path.write_text(settings.properties(settings.zookeeper(self.directory, port)))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._zookeeper = self._process("zookeeper", 256, main, str(path))
        self._zookeeper.start()
        self.zookeeper_hosts = f"{settings.HOST}:{port}"
        wait_until(lambda: _zookeeper_answers(port), START_TIMEOUT_S, "ZooKeeper", self._zookeeper)
        if self.sasl is not None:
            authentication.store_users(self.sasl, self.zookeeper_hosts)

    def _format(self) -> None:
        arguments = [] if self.sasl is None else authentication.format_arguments(self.sasl)
        cluster_id = new_id()
        template = template_of(self._jars, arguments, lambda: self._run_formatter(cluster_id, arguments))
        for number in self.broker_ids:
            write_log_directories(self._log_directories[number], template, cluster_id, number)

    def _run_formatter(self, cluster_id: str, arguments: list[str]) -> Path:
        number = self.broker_ids[0]
        path = str(self.directory / f"broker-{number}.properties")
        fixed = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "--config", path]
        formatter = self._process(f"format-{number}", 128, *fixed, *arguments)
        formatter.start()
        try:
            if formatter.wait(START_TIMEOUT_S):
                raise BrokerSetupError(f"Kafka cannot format its log directory; its last words:\n{formatter.tail()}")
        finally:
            formatter.kill()
        return self._log_directories[number][0]

    def _options(self, name: str) -> list[str]:
        return [
            *self.release.jvm_options,
            *settings.logging_options(self.release, self.directory, name),
            # On a small machine the one-threaded collector costs the least; nobody can attach to it anyway.
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
        ]

    def _process(self, name: str, heap_mb: int, main: str, *arguments: str) -> JavaProcess:
        options = [*self._options(name), *self._quick_options, *self._jvm_options, f"-Xmx{heap_mb}m"]
        command = [*options, "-cp", f"{self._jars}/*{self._plugins}", main, *arguments]
        return JavaProcess(command, self.directory / f"{name}.out", None if self._keep else self.directory)

    def _wait_until_forgotten(self, broker: int) -> None:
        # A broker that finds itself registered, by the session of the one that was killed, ends.
        zookeeper = KazooClient(self.zookeeper_hosts)
        zookeeper.start(START_TIMEOUT_S)
        try:
            what = f"the end of the session of broker {broker}"
            wait_until(lambda: not zookeeper.exists(f"/brokers/ids/{broker}"), START_TIMEOUT_S, what)
        finally:
            zookeeper.stop()
            zookeeper.close()

    def _wait_for(self, brokers: list[int]) -> None:
        processes = [self._processes[number] for number in brokers]

        # Until there is a topic, brokers of 0.8.2 tell of no brokers (KAFKA-1867).
        topic = b"first-topic" if self.release.numbers < (0, 9) else None

        def ready() -> bool:
            return all(set(brokers) <= known_brokers(self.ports[number], topic) for number in brokers)

        wait_until(ready, START_TIMEOUT_S, f"Kafka {self.version}", *processes)


def known_brokers(port: int, topic: bytes | None = None) -> set[int]:
    """Ask a broker by Metadata v0, which all releases speak, for the brokers that it knows; none while it starts.

    :param topic: ask about this one, which creates it; None: about those that there are
    """
    topics = [] if topic is None else [struct.pack(">h", len(topic)) + topic]
    body = struct.pack(">hhihi", 3, 0, 1, -1, len(topics)) + b"".join(topics)
    try:
        with (
            socket.create_connection((settings.HOST, port), timeout=5) as connection,
            connection.makefile("rb") as stream,  # without its end the socket stays open
        ):
            connection.sendall(struct.pack(">i", len(body)) + body)
            answer = stream.read(struct.unpack(">i", stream.read(4))[0])
    except (OSError, struct.error):
        return set()
    found, at = set(), 8
    for _ in range(struct.unpack_from(">i", answer, 4)[0]):
        number, size = struct.unpack_from(">ih", answer, at)
        found.add(number)
        at += 6 + size + 4
    return found


def free_ports(count: int) -> list[int]:
    """Return ports at which nobody listens now, and which no other process gets from here until this one ends.

    A broker that was killed starts again at its old ports: other parts of the tests must not have taken them meanwhile.
    """
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if not _claim(port):
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((settings.HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise BrokerSetupError(f"only {len(found)} of {count} ports are free in {_PORTS}: end what listens there")


@cache
def _claims() -> IO[bytes]:
    """Return the file whose bytes stand for ports; a process that closes it gives its locks up, so it stays open."""
    return (cache_directory() / "ports.lock").open("ab")


def _claim(port: int) -> bool:
    """Lock the byte of a port; return False if another process has it."""
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _zookeeper_answers(port: int) -> bool:
    # The four-letter words are disabled in later releases; a session request is always answered.
    request = struct.pack(">iqiqi", 0, 0, 6000, 0, 16) + bytes(16)
    try:
        with socket.create_connection((settings.HOST, port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            return len(connection.recv(4)) == 4
    except OSError:
        return False
