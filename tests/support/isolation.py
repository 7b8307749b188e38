"""A leader that is cut off from the controller: one program for real brokers and for the fake cluster.

python -m tests.support.isolation 3.9.2     # prints what real brokers of that release answer
"""

from __future__ import annotations

import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import Any, Protocol

from pykafka.protocol import wire
from tests.brokers import KafkaCluster
from tests.testing.connection import Connection, produce

#: The broker that is cut off, and one that is not.
CUT_OFF, CURRENT = 2, 1
#: A topic with a replica on each, and one that only the broker has which is cut off.
SHARED, OWN = "shared", "own"
#: How long brokers and controller may take to notice something (s).
NOTICES_S = 60.0
#: Versions that all releases since 2.8 have.
PRODUCE, FETCH, LIST, EPOCHS, METADATA = 9, 12, 6, 4, 9

#: What brokers of 2.8.2, 3.9.2 and 4.3.1 answer: errors, offsets; of Fetch the error, the high watermark, whether there are
#: records, and where the logs diverge.
EXPECTED = [
    ("first record of shared", (0, 0)),
    ("first record of own", (0, 0)),
    ("epochs", (True, True)),
    ("acks=1", (0, 1)),
    ("acks=1 again", (0, 2)),
    ("acks=all", (7, 3)),
    ("fetch in the old epoch", (0, 1, True, -1)),
    ("end in the old epoch", (0, 1)),
    ("fetch in the new epoch", (75, -1, False, -1)),
    ("end in the new epoch", (75, -1)),
    ("fetch in the no epoch", (0, 1, True, -1)),
    ("end in the no epoch", (0, 1)),
    ("fetch at the high watermark", (0, 1, False, -1)),
    ("fetch above the high watermark", (0, 1, False, -1)),
    ("fetch at the end", (0, 1, False, -1)),
    ("fetch behind the end", (1, -1, False, -1)),
    ("end of the old epoch", (0, 4)),
    ("end of the new epoch", (0, -1)),
    ("acks=all, one in sync", (0, 1)),
    ("fetch, one in sync", (0, 2, True, -1)),
    ("acks=all to the new leader", (0, 1)),
    ("former leader: acks=1", (6, -1)),
    ("former leader: old epoch", (74, -1, False, -1)),
    ("former leader: new epoch", (0, 2, True, -1)),
    ("former leader: what was lost", (1, -1, False, -1)),
    ("new leader: new epoch", (0, 2, True, -1)),
    ("new leader: what was lost", (1, -1, False, -1)),
    ("new leader: read up to there", (0, 2, False, 1)),
    ("new leader: end of the old epoch", (0, 1)),
    ("new leader: end", (0, 2)),
    ("one in sync: its record", (0, 2, True, -1)),
]


class Isolable(Protocol):
    """A cluster of two brokers with both topics, all led by `CUT_OFF`."""

    @property
    def hosts(self) -> str:
        """The addresses of the brokers."""

    def isolate(self, broker: int) -> None:
        """Cut a broker off from the controller."""

    def rejoin(self, broker: int) -> None:
        """End that."""


class Proxy:
    """Passes bytes on to a port of this machine, until it is cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._is_cut = False
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                if self._is_cut:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(("127.0.0.1", self._target), 5)
                except OSError:
                    near.close()
                    continue
                self._pairs.append((near, far))
                for pair in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=_pump, args=pair, daemon=True))
                    self._threads[-1].start()

    def cut(self, is_cut: bool) -> None:
        """Cut all connections and refuse others, or pass them on again."""
        self._is_cut = is_cut
        pairs, self._pairs = (self._pairs, []) if is_cut else ([], self._pairs)
        for one in (one for pair in pairs for one in pair):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cut all for good."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self.cut(True)
        for thread in self._threads:
            thread.join(10)
        self._listener.close()
        self._threads = []


def _pump(near: socket.socket, far: socket.socket) -> None:
    with suppress(OSError):
        while data := near.recv(65536):
            far.sendall(data)
    for one in (near, far):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    near.close()


class RealCluster(KafkaCluster):
    """Two real brokers, of which the second one reaches ZooKeeper, or the controller, by proxies."""

    def __init__(self, version: str) -> None:
        super().__init__(version, 2, {"auto.leader.rebalance.enable": "false", "num.partitions": 1})
        self._proxies: list[Proxy] = []

    def _prepare(self) -> None:
        super()._prepare()
        for number in self.broker_ids:
            path = self.directory / f"broker-{number}.properties"
            path.write_text(self._changed(path.read_text(), number))

    def _changed(self, text: str, number: int) -> str:
        """Return the settings of a broker with the first one as the only controller, and with proxies."""
        if not self.release.kraft:
            pattern = r"(?<=zookeeper\.connect=127\.0\.0\.1:)\d+"
            return text if number != CUT_OFF else re.sub(pattern, lambda found: self._proxied(found[0]), text)
        text = re.sub(r"(controller\.quorum\.voters=[^,\n]*).*", r"\1", text)
        if number != CUT_OFF:
            # Brokers fetch the metadata where the controller says that it listens.
            controller = re.search(r"CONTROLLER://127\.0\.0\.1:(\d+)", text)
            assert controller is not None, text
            advertised = f",CONTROLLER://127.0.0.1:{self._proxied(controller[1])}"
            return re.sub(r"(?m)^advertised\.listeners=.*", lambda found: found[0] + advertised, text)
        text = text.replace("process.roles=broker,controller", "process.roles=broker")
        text = re.sub(r"(?m)^(listeners=.*),CONTROLLER://\S*$", r"\1", text)
        return re.sub(r"(?<=voters=1@127\.0\.0\.1:)\d+", lambda found: self._proxied(found[0]), text)

    def _proxied(self, port: str) -> str:
        self._proxies.append(Proxy(int(port)))
        return str(self._proxies[-1].port)

    def close(self) -> None:
        for proxy in self._proxies:
            proxy.close()
        super().close()

    def isolate(self, broker: int) -> None:
        """Cut the second broker off from the controller."""
        assert (broker, bool(self._proxies)) == (CUT_OFF, True)
        for proxy in self._proxies:
            proxy.cut(True)

    def rejoin(self, broker: int) -> None:
        """End that."""
        for proxy in self._proxies:
            proxy.cut(False)


class Speaker:
    """Asks brokers of a cluster, and writes down what they answer."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.transcript: list[tuple[str, Any]] = []

    def ask(self, broker: int, request: Any, version: int) -> Any:
        """Return an answer."""
        with closing(Connection(self._cluster, broker)) as connection:
            return connection.ask(request, version)

    def note(self, label: str, *found: Any) -> None:
        """Write something down."""
        self.transcript.append((label, found))

    def leader(self, broker: int, topic: str = SHARED) -> tuple[int, int]:
        """Return leader and epoch, as a broker has them."""
        request = wire.MetadataRequest(topics=[wire.MetadataRequest.Topic(name=topic)], allow_auto_topic_creation=False)
        found = self.ask(broker, request, METADATA).topics[0].partitions
        return (found[0].leader_id, found[0].leader_epoch) if found else (-1, -1)

    def produce(self, label: str, broker: int, value: bytes, acks: int, topic: str = SHARED) -> None:
        """Write a record."""
        (part,) = self.ask(broker, produce(topic, value, acks=acks), PRODUCE).responses[0].partition_responses
        self.note(label, part.error_code, part.base_offset)

    def fetch(self, label: str, broker: int, offset: int, epoch: int, last: int = -1, topic: str = SHARED) -> None:
        """Read: note the error, the high watermark, whether there are records, and where the logs diverge."""
        part = wire.FetchRequest.Topic.Partition(
            partition=0, fetch_offset=offset, current_leader_epoch=epoch, last_fetched_epoch=last,
            partition_max_bytes=1 << 20, log_start_offset=-1,
        )  # fmt: skip
        request = wire.FetchRequest(
            replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, session_epoch=-1,
            topics=[wire.FetchRequest.Topic(topic=topic, partitions=[part])],
        )  # fmt: skip
        (found,) = self.ask(broker, request, FETCH).responses[0].partitions
        diverging = found.diverging_epoch.end_offset
        self.note(label, found.error_code, found.high_watermark, bool(found.records), diverging)

    def end(self, label: str, broker: int, epoch: int, topic: str = SHARED) -> None:
        """Ask for the end of the log."""
        part = wire.ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
        request = wire.ListOffsetsRequest(
            replica_id=-1, topics=[wire.ListOffsetsRequest.Topic(name=topic, partitions=[part])]
        )
        (found,) = self.ask(broker, request, LIST).topics[0].partitions
        self.note(label, found.error_code, found.offset)

    def end_of(self, label: str, broker: int, epoch: int, asked: int) -> None:
        """Ask for the end of an epoch."""
        kind = wire.OffsetForLeaderEpochRequest.Topic
        part = kind.Partition(partition=0, current_leader_epoch=epoch, leader_epoch=asked)
        request = wire.OffsetForLeaderEpochRequest(replica_id=-1, topics=[kind(topic=SHARED, partitions=[part])])
        (found,) = self.ask(broker, request, EPOCHS).topics[0].partitions
        self.note(label, found.error_code, found.end_offset)


def await_so(is_so: Callable[[], bool], what: str) -> None:
    """Wait until something is so."""
    until = time.monotonic() + NOTICES_S
    while not is_so():
        assert time.monotonic() < until, f"{what} is not so after {NOTICES_S:g} s"
        time.sleep(0.1)


def story(cluster: Isolable, elect: Callable[[], None] = lambda: None) -> list[tuple[str, Any]]:
    """Return what brokers answer while a leader is cut off, and after that.

    :param elect: makes the controller notice
    """
    speaker = Speaker(cluster)
    _, old = speaker.leader(CURRENT)
    for topic in (SHARED, OWN):
        speaker.produce(f"first record of {topic}", CUT_OFF, b"a", -1, topic)
    cluster.isolate(CUT_OFF)
    elect()
    await_so(lambda: speaker.leader(CURRENT)[0] == CURRENT, "another broker leads")
    leader, new = speaker.leader(CURRENT)
    speaker.note("epochs", speaker.leader(CUT_OFF) == (CUT_OFF, old), new > old)
    _while_isolated(speaker, old, new)
    speaker.produce("acks=all to the new leader", leader, b"b", -1)
    cluster.rejoin(CUT_OFF)
    await_so(lambda: speaker.leader(CUT_OFF) == (leader, new), "the former leader has heard of it")
    await_so(lambda: speaker.leader(CURRENT, OWN)[0] == CUT_OFF, "it leads again what it alone has")
    _, own = speaker.leader(CURRENT, OWN)
    await_so(lambda: speaker.leader(CUT_OFF, OWN)[1] == own, "it has heard of that")
    time.sleep(1.0)  # it copies what it lacks
    _afterwards(speaker, leader, old, new, own)
    return speaker.transcript


def _while_isolated(speaker: Speaker, old: int, new: int) -> None:
    speaker.produce("acks=1", CUT_OFF, b"lost", 1)
    speaker.produce("acks=1 again", CUT_OFF, b"lost", 1)
    speaker.produce("acks=all", CUT_OFF, b"lost", -1)
    for name, epoch in (("old", old), ("new", new), ("no", -1)):
        speaker.fetch(f"fetch in the {name} epoch", CUT_OFF, 0, epoch)
        speaker.end(f"end in the {name} epoch", CUT_OFF, epoch)
    speaker.fetch("fetch at the high watermark", CUT_OFF, 1, old)
    speaker.fetch("fetch above the high watermark", CUT_OFF, 2, old)
    speaker.fetch("fetch at the end", CUT_OFF, 4, old)
    speaker.fetch("fetch behind the end", CUT_OFF, 9, old)
    speaker.end_of("end of the old epoch", CUT_OFF, old, old)
    speaker.end_of("end of the new epoch", CUT_OFF, old, new)
    speaker.produce("acks=all, one in sync", CUT_OFF, b"kept", -1, OWN)
    speaker.fetch("fetch, one in sync", CUT_OFF, 1, -1, topic=OWN)


def _afterwards(speaker: Speaker, leader: int, old: int, new: int, own: int) -> None:
    speaker.produce("former leader: acks=1", CUT_OFF, b"c", 1)
    speaker.fetch("former leader: old epoch", CUT_OFF, 0, old)
    speaker.fetch("former leader: new epoch", CUT_OFF, 1, new)
    speaker.fetch("former leader: what was lost", CUT_OFF, 4, new)
    speaker.fetch("new leader: new epoch", leader, 1, new)
    speaker.fetch("new leader: what was lost", leader, 4, new)
    speaker.fetch("new leader: read up to there", leader, 4, new, old)
    speaker.end_of("new leader: end of the old epoch", leader, new, old)
    speaker.end("new leader: end", leader, new)
    speaker.fetch("one in sync: its record", CUT_OFF, 1, own, topic=OWN)


def create(cluster: RealCluster) -> None:
    """Make the topics of the story on real brokers."""
    kind = wire.CreateTopicsRequest.Topic
    replicas: Mapping[str, list[int]] = {SHARED: [2, 1], OWN: [2]}
    topics = [
        kind(name=name, num_partitions=-1, replication_factor=-1,
             assignments=[kind.Assignment(partition_index=0, broker_ids=nodes)])
        for name, nodes in replicas.items()
    ]  # fmt: skip
    speaker = Speaker(cluster)
    request = wire.MetadataRequest(topics=[], allow_auto_topic_creation=False)
    controller = speaker.ask(CURRENT, request, METADATA).controller_id
    answer = speaker.ask(controller, wire.CreateTopicsRequest(topics=topics, timeout_ms=30_000), 5)
    assert [one.error_code for one in answer.topics] == [0, 0], answer
    await_so(lambda: all(speaker.leader(number)[0] == CUT_OFF for number in (1, 2)), "all know the topic")


def real(version: str) -> list[tuple[str, Any]]:
    """Return what real brokers of a release answer."""
    cluster = RealCluster(version)
    with cluster:
        create(cluster)
        return story(cluster)


if __name__ == "__main__":
    for row in real(sys.argv[1]):
        sys.stdout.write(f"{row}\n")
