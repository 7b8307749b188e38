"""A consumer group as ZooKeeper has it: members and committed offsets, in the layout that clients before Kafka 0.9 agreed on.

    /consumers/{group}/ids/{member}                     the topics of a member   one for each member, ephemeral
    /consumers/{group}/offsets/{topic}/{partition}      an offset, as text       one for each partition

Brokers with ZooKeeper write the same nodes for commits by OffsetCommit version 0.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, OffsetRequestFailedError, ZooKeeperError
from pykafka.metadata.zookeeper import answered

if TYPE_CHECKING:
    from kazoo.client import KazooClient

log = logging.getLogger(__name__)

#: How many requests are under way at a time.
AT_A_TIME = 500


class NodeOffset(NamedTuple):
    """An offset of a node, and the version of the node."""

    offset: int
    version: int


def topics_read(content: bytes) -> frozenset[str] | None:
    """Return the topics that a member reads, by the content of its node: PyKafka's store a name, Java's a JSON object.

    :returns: None for a pattern, or where it does not say
    """
    text = content.decode(errors="replace")
    try:
        said = json.loads(text)
    except ValueError:
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
        """Return the topics in which the group has offsets; errors as of `members`."""
        return sorted(self._children(self._offsets))

    def offsets(self, topics: Iterable[str]) -> dict[TopicPartition, NodeOffset | KafkaException]:
        """Return the offset of each partition that has one, or the reason why it cannot be read.

        :param topics: to look at
        :raises ZooKeeperError: as of `members`
        """
        places: dict[str, TopicPartition] = {}
        for topic in topics:
            for name in self._children(f"{self._offsets}/{topic}"):
                if name.isdecimal():
                    places[f"{self._offsets}/{topic}/{name}"] = TopicPartition(topic, int(name))
                else:
                    log.warning("%s/%s/%s is no partition, and left alone", self._offsets, topic, name)
        return self._read(places)

    def offsets_of(self, keys: Collection[TopicPartition]) -> dict[TopicPartition, NodeOffset | KafkaException]:
        """Return the offset of each of some partitions that has one; errors as of `offsets`."""
        return self._read({self._place(key): key for key in keys})

    def _read(self, places: Mapping[str, TopicPartition]) -> dict[TopicPartition, NodeOffset | KafkaException]:
        found = self._get(places)
        return {key: _offset(key, path, *found[path]) for path, key in places.items() if path in found}

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


def _offset(key: TopicPartition, path: str, content: bytes, stat: Any) -> NodeOffset | KafkaException:
    text = content.decode("ascii", errors="replace").strip()
    if text.isdecimal():
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
