"""A real ZooKeeper by itself, for groups on clusters that have none."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType

from tests.brokers import classpath, release, settings
from tests.brokers.cluster import START_TIMEOUT_S, _zookeeper_answers, free_ports
from tests.brokers.process import JavaProcess, wait_until

#: The Kafka release whose jars bring it along.
KAFKA = "2.8.2"


class ZooKeeper:
    """Run a ZooKeeper on 127.0.0.1 for as long as the `with` block lasts.

    :raises BrokerSetupError: Java, the jars or a port are missing, or it does not come up
    """

    def __init__(self) -> None:
        self._directory = Path()
        self._process: JavaProcess | None = None
        self._port = 0

    @property
    def hosts(self) -> str:
        """The address at which ZooKeeper listens, up or down."""
        return f"{settings.HOST}:{self._port}"

    @property
    def port(self) -> int:
        """The port of that address."""
        return self._port

    def __enter__(self) -> ZooKeeper:
        jars = classpath(release(KAFKA).coordinates)
        self._directory = Path(tempfile.mkdtemp(prefix="pykafka-zookeeper-"))
        self._port = free_ports(1)[0]
        path = self._directory / "zookeeper.properties"
        path.write_text(settings.properties(settings.zookeeper(self._directory, self._port)))
        options = [
            *release(KAFKA).jvm_options,
            *settings.logging_options(release(KAFKA), self._directory, "zookeeper"),
            *("-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1", "-Xmx128m"),
        ]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = [*options, "-cp", f"{jars}/*", main, str(path)]
        self._process = JavaProcess(command, self._directory / "zookeeper.out", self._directory)
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self) -> None:
        """Start ZooKeeper at its old port with its old data, and wait until it answers."""
        assert self._process is not None
        self._process.start()
        wait_until(lambda: _zookeeper_answers(self._port), START_TIMEOUT_S, "ZooKeeper", self._process)

    def kill(self) -> None:
        """Kill ZooKeeper (SIGKILL)."""
        assert self._process is not None
        self._process.kill()

    def pause(self) -> None:
        """Pause ZooKeeper (SIGSTOP): it keeps its connections and answers nothing."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        """Resume ZooKeeper after a pause (SIGCONT)."""
        assert self._process is not None
        self._process.resume()
