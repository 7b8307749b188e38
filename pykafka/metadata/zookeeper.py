"""Sessions of ZooKeeper, and what it has of a cluster: the addresses of brokers, and the nodes of groups."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    from kazoo.client import KazooClient
    from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
    from kazoo.hosts import collect_hosts
except ModuleNotFoundError as error:
    raise ImportError(
        'ZooKeeper needs the package kazoo: install the extra zookeeper (pip install "pykafka[zookeeper]")',
        name="kazoo",
    ) from error

from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, NoBrokersAvailableError, OffsetRequestFailedError, ZooKeeperError
from pykafka.handlers.interrupts import FinalSteps
from pykafka.utils import OFFSET_DIGITS, PARTITION_DIGITS, is_number

if TYPE_CHECKING:
    from pykafka.handlers import Handler


BROKER_IDS = "/brokers/ids"
#: The name of an attribute: the session timeout that ZooKeeper has agreed to (ms).
AGREED = "_pykafka_agreed_ms"
#: How long kazoo may take to end its workers (s).
KAZOO_S = 10.0

log = logging.getLogger(__name__)

#: How many requests are under way at a time.
AT_A_TIME = 500
_PORT_MAX = 65535


def check_hosts(hosts: str) -> None:
    """Raise an error unless this is an address of ZooKeeper.

    :param hosts: "host:port,host:port/chroot"
    :raises ValueError: it is not
    """
    collect_hosts(hosts)


def new_client(hosts: str, handler: Handler, timeout_s: float) -> Any:
    """Return a KazooClient that is not connected yet; `agreed_timeout_s` knows its session timeout later.

    :param hosts: "host:port,host:port/chroot"
    :param handler: supplies kazoo's handler
    :param timeout_s: the session timeout to ask for (s)
    """
    client = handler.kazoo_client(hosts, timeout_s)
    connect = client._connection._connect

    def connecting(*args: Any) -> tuple[float, float]:
        read_ms, connect_ms = connect(*args)
        vars(client)[AGREED] = read_ms * 3 / 2  # kazoo keeps to two thirds of what was agreed
        return read_ms, connect_ms

    client._connection._connect = connecting
    return client


def agreed_timeout_s(client: Any) -> float:
    """Return the session timeout that ZooKeeper has agreed to (s), if `new_client` has made the client; else that asked for."""
    return float(vars(client).get(AGREED, client._session_timeout)) / 1000


def end_session(client: Any) -> None:
    """End a connection and its session, and so remove the session's nodes."""
    client.stop()
    client.close()


def answered(result: Any, timeout_s: float, name: str, path: str, **context: Any) -> Any:
    """Wait for an answer of kazoo's, and return it.

    :param result: of a call such as `get_async`
    :param timeout_s: how long to wait (s)
    :param name: of the call, for errors
    :param path: that it was about, likewise
    :param context: as for KafkaException
    :raises NoNodeError, NodeExistsError: as ZooKeeper says
    :raises ZooKeeperError: there was no answer in time, or another error
    """
    result.wait(timeout_s)
    if not result.ready():
        raise ZooKeeperError(
            f"no answer from ZooKeeper within {timeout_s:.3g} s; check that it is up and can be reached", **context
        )
    try:
        return result.get()
    except (NoNodeError, NodeExistsError):
        raise
    except KazooException as error:
        raise ZooKeeperError(
            f"ZooKeeper: {type(error).__name__} {error} from {name} of {path}; trying again may help", **context
        ) from error


@contextmanager
def opened(hosts: str, handler: Handler, timeout_s: float, read_only: bool = False) -> Iterator[Any]:
    """Yield a connection to ZooKeeper for the length of the `with` block: a KazooClient.

    :param hosts: "host:port,host:port/chroot"
    :param handler: supplies kazoo's handler
    :param timeout_s: for connecting (s); also the session timeout
    :param read_only: whether a server without a quorum will do
    :raises ZooKeeperError: no host answered in time
    """
    client = handler.kazoo_client(hosts, timeout_s, read_only)
    final_steps = FinalSteps(handler, "pykafka.ZooKeeper.end")
    try:
        # not `start()`: it raises a greenlet's timeout, which is not distinct from one that the caller has set
        client.start_async().wait(timeout_s)
        if not client.connected:
            raise ZooKeeperError(
                f"ZooKeeper at {hosts} did not answer within {timeout_s:g} s; check that it is up, and zookeeper_hosts="
            )
        yield client
    finally:
        final_steps.take(partial(end_session, client), timeout_s + KAZOO_S)


def broker_addresses(hosts: str, handler: Handler, timeout_ms: int) -> list[tuple[str, int]]:
    """Return (host, port) of each broker that is registered.

    :param hosts: "host:port,host:port/chroot"
    :param handler: supplies kazoo's handler
    :param timeout_ms: for connecting
    :raises NoBrokersAvailableError: ZooKeeper cannot be reached, or no broker is registered there
    """
    try:
        with opened(hosts, handler, timeout_ms / 1000, read_only=True) as zookeeper:
            nodes = [zookeeper.get(f"{BROKER_IDS}/{id_}")[0] for id_ in zookeeper.get_children(BROKER_IDS)]
    except ZooKeeperError as error:
        raise NoBrokersAvailableError(str(error)) from error
    except KazooException as error:
        raise NoBrokersAvailableError(
            f"ZooKeeper at {hosts} gave no brokers ({type(error).__name__}: {error}); check zookeeper_hosts= and its chroot"
        ) from error
    found = [address for address in map(registered_address, nodes) if address is not None]
    if not found:
        raise NoBrokersAvailableError(
            f"no broker is registered in ZooKeeper at {hosts}; check its chroot, start a broker"
        )
    return found


def registered_address(content: bytes) -> tuple[str, int] | None:
    """Return host and port of a broker, by the content of its node.

    :returns: None if the broker has no listener of the old kind; and for content of another form, which is logged
    """
    try:
        node = json.loads(content)
        host, port = node["host"], node["port"]
    except (ValueError, TypeError, KeyError, RecursionError):
        host, port = "", 0
    if host is None:
        return None
    if host and isinstance(host, str) and isinstance(port, int) and 0 <= port <= _PORT_MAX:
        return host, port
    log.warning("ZooKeeper has a node of a broker without host and port, which the client leaves out: %.100r", content)
    return None


class NodeOffset(NamedTuple):
    """An offset of a node, and the version of the node."""

    offset: int
    version: int


def topics_read(content: bytes) -> frozenset[str] | None:
    """Return the topics that a member reads, by the content of its node: PyKafka's store a name, Java's a JSON object.

    :returns: None for a pattern, or if it does not say
    """
    text = content.decode(errors="replace")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return frozenset([text])
    if not isinstance(said, dict):
        return frozenset([text])  # a topic whose name is a number
    named = said.get("subscription")
    if said.get("pattern", "static") != "static" or not isinstance(named, dict):
        return None
    return frozenset(named)


class GroupNodes:
    """The nodes of a group, over an open connection. It has no state of its own.

    :param client: a KazooClient that is connected
    :param group: the group's name
    :param left_s: returns how long a call may still wait (s)
    """

    def __init__(self, client: KazooClient, group: str, left_s: Callable[[], float]) -> None:
        self._client: Any = client
        self._left_s = left_s
        self._members = f"/consumers/{group}/ids"
        self._offsets = f"/consumers/{group}/offsets"

    def members(self) -> dict[str, frozenset[str] | None]:
        """Return the topics that each live member reads; None for a pattern.

        :raises ZooKeeperError: there was no answer in time, or ZooKeeper refuses
        """
        found = self._get(f"{self._members}/{name}" for name in self._children(self._members))
        return {path.rpartition("/")[2]: topics_read(answer[0]) for path, answer in sorted(found.items())}

    def topics(self) -> list[str]:
        """Return the topics in which the group has offsets; errors: see `members`."""
        return sorted(self._children(self._offsets))

    def offsets(self, topics: Iterable[str]) -> dict[TopicPartition, NodeOffset | KafkaException]:
        """Return the offset of each partition that has one, or the reason why it cannot be read.

        :param topics: to look at
        :raises ZooKeeperError: as of `members`
        """
        places: dict[str, TopicPartition] = {}
        for topic in topics:
            for name in self._children(f"{self._offsets}/{topic}"):
                if is_number(name, PARTITION_DIGITS):
                    places[f"{self._offsets}/{topic}/{name}"] = TopicPartition(topic, int(name))
                else:
                    log.warning("%s/%s/%s is no partition, and left alone", self._offsets, topic, name)
        return self._read(places)

    def offsets_of(self, keys: Collection[TopicPartition]) -> dict[TopicPartition, NodeOffset | KafkaException]:
        """Return the offset of each of some partitions that has one; errors: see `offsets`."""
        return self._read({self._place(key): key for key in keys})

    def _read(self, places: Mapping[str, TopicPartition]) -> dict[TopicPartition, NodeOffset | KafkaException]:
        found = self._get(places)
        return {key: node_offset(key, path, *found[path]) for path, key in places.items() if path in found}

    def store(self, key: TopicPartition, offset: int, over: int | None) -> None:
        """Write the offset of a partition.

        :param over: the version of the node that it replaces; None makes a node
        :raises OffsetRequestFailedError: another client has written it meanwhile
        :raises ZooKeeperError: as of `members`
        """
        path, content = self._place(key), b"%d" % offset
        context = {"topic": key.topic, "partition": key.partition}
        if over is None:
            try:
                answered(
                    self._client.create_async(path, content, makepath=True), self._left_s(), "create", path, **context
                )
            except NodeExistsError as error:
                raise _changed(path, key) from error
            return
        try:
            answered(self._client.set_async(path, content, over), self._left_s(), "set", path, **context)
        except NoNodeError as error:
            raise _changed(path, key) from error
        except ZooKeeperError as error:
            if isinstance(error.__cause__, BadVersionError):
                raise _changed(path, key) from error
            raise

    def _place(self, key: TopicPartition) -> str:
        return f"{self._offsets}/{key.topic}/{key.partition}"

    def _children(self, path: str) -> list[str]:
        try:
            return list(answered(self._client.get_children_async(path), self._left_s(), "get_children", path))
        except NoNodeError:
            return []

    def _get(self, paths: Iterable[str]) -> dict[str, tuple[bytes, Any]]:
        """Return content and state of each node that is there; many requests are under way at a time."""
        found = {}
        wanted = list(paths)
        for begin in range(0, len(wanted), AT_A_TIME):
            some = [(path, self._client.get_async(path)) for path in wanted[begin : begin + AT_A_TIME]]
            for path, result in some:
                try:
                    found[path] = answered(result, self._left_s(), "get", path)
                except NoNodeError:
                    log.debug("%s has gone", path)
        return found


def node_offset(key: TopicPartition, path: str, content: bytes, stat: Any) -> NodeOffset | KafkaException:
    """Return the offset in a node's content, or the error if it has none."""
    text = content.decode("ascii", errors="replace").strip()
    if is_number(text, OFFSET_DIGITS):
        return NodeOffset(int(text), int(stat.version))
    return OffsetRequestFailedError(
        f"the node {path} of ZooKeeper has no offset, but {text[:40]!r}: repair it, or leave this topic out",
        topic=key.topic,
        partition=key.partition,
    )


def _changed(path: str, key: TopicPartition) -> OffsetRequestFailedError:
    return OffsetRequestFailedError(
        f"another client has changed {path} meanwhile, so it is left alone: stop whatever commits there, and try again",
        topic=key.topic,
        partition=key.partition,
    )
