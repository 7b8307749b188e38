"""`TopicDict`: the topics of a cluster by name, made when they are looked up."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Collection, Iterator, KeysView, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pykafka.exceptions import (
    ClientClosedError,
    KafkaException,
    ProtocolClientError,
    TopicNotFoundError,
    UnknownTopicOrPartition,
)
from pykafka.metadata.partition import PartitionMetadata, TopicMetadata
from pykafka.network.authentication import LOGIN_ERRORS
from pykafka.utils import get_string
from pykafka.utils.error_handlers import left_ms
from pykafka.utils.hints import most_similar
from pykafka.utils.name import Name

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.metadata.partition import TopicView
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

T = TypeVar("T", bound="TopicView")

#: `(cluster, metadata)` to the object that stands for a topic.
MakeTopic = Callable[[Any, TopicMetadata], Any]
#: How long showing the topics asks for their names (ms).
SHOW_MS = 5000
#: How long the names of all topics are asked for to find one like a misspelt name (ms); a call's own limit may leave less.
HINT_MS = 5000
#: The names of Kafka's own topics begin so.
INTERNAL_PREFIX = "__"


class TopicSource(Protocol):
    """The cluster whose topics these are; `BaseCluster` says what each member does."""

    @property
    def handler(self) -> Handler: ...
    @property
    def closed(self) -> bool: ...
    @property
    def all_known(self) -> bool: ...
    @property
    def brokers(self) -> Mapping[int, Node]: ...
    @property
    def allow_auto_create_topics(self) -> bool: ...
    def know_all(self) -> None: ...
    def update(self, topics: None = None, timeout_ms: int | None = None) -> None: ...
    def topic_names(self, timeout_ms: int) -> Sequence[str]: ...
    def find_topic(self, name: str, timeout_ms: int | None = None) -> TopicMetadata | None: ...
    def topic_metadata(self, name: str) -> TopicMetadata | None: ...
    def wait_for_topic(self, name: str, timeout_ms: int | None = None) -> TopicMetadata: ...


class TopicDict(dict[Any, "weakref.ref[T] | None"], Generic[T]):
    """The topics of a cluster by name; names may be str or bytes.

    Listing it makes no `Topic`; looking one up does, and holds it weakly. A name that the cluster does not have is asked
    for, which creates the topic if the brokers' auto.create.topics.enable allows it; a warning then names the topic with
    nearly the same name, if there is one. A client with `allow_auto_create_topics=False` creates no topics.
    A topic that does not exist and is not created raises `TopicNotFoundError`, which is a KeyError.

    The cluster keeps up with topics in use alone. Who lists or counts them has it ask for all, every five minutes at most,
    and raises NoBrokersAvailableError if no broker answers, and ClientClosedError once the client was closed;
    `update_cluster()` asks at once. Printing it asks, too, for five seconds at most, and raises neither: it shows the topics
    that are known then. On an event loop, where it cannot wait, it shows them at once.
    """

    def __init__(self, cluster: TopicSource, exclude_internal_topics: bool, make: MakeTopic | None) -> None:
        super().__init__()
        self._make_topic = make
        self._cluster = weakref.ref(cluster)
        #: The topics that the application holds, also while the cluster does not have them.
        self._live: weakref.WeakValueDictionary[str, T] = weakref.WeakValueDictionary()
        self._handler = cluster.handler
        self.after_fork()
        self._exclude_internal_topics = exclude_internal_topics

    def after_fork(self) -> None:
        """Replace the lock in a forked child: another worker of the parent may have held it."""
        self._lock = self._handler.Lock()

    def _should_exclude_topic(self, topic_name: str | bytes) -> bool:
        return self._exclude_internal_topics and get_string(topic_name).startswith(INTERNAL_PREFIX)

    def is_hidden(self, name: str) -> bool:
        """Return whether a topic is one of Kafka's own, and the client hides those."""
        return self._should_exclude_topic(name)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, (str, bytes)):
            return False
        name = get_string(key)
        cluster = self._cluster()
        if not super().__contains__(name) and cluster is not None and not cluster.all_known:
            cluster.find_topic(name)
        return super().__contains__(name)

    def _know_all(self) -> None:
        cluster = self._cluster()
        if cluster is None:
            return
        if cluster.closed:  # also if all topics are known, so that the behaviour does not depend on the time
            raise ClientClosedError("this client was closed: its topics cannot be listed; make a new KafkaClient")
        cluster.know_all()

    def __iter__(self) -> Iterator[Any]:
        self._know_all()
        return super().__iter__()

    def __len__(self) -> int:
        self._know_all()
        return super().__len__()

    def __repr__(self) -> str:
        """Show names and topics, as PyKafka 2 did; of a client that is closed, or cannot ask its brokers, those it knows."""
        self._ask_quietly()
        return super().__repr__()

    def __eq__(self, other: object) -> bool:
        self._ask_quietly()
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def _ask_quietly(self) -> None:
        """Ask for all names, for `SHOW_MS` at most: debuggers, logs and failing assertions need an answer, not an error."""
        cluster = self._cluster()
        if cluster is None or cluster.closed or cluster.all_known or not self._handler.may_wait:
            return
        try:
            cluster.update(timeout_ms=SHOW_MS)
        except KafkaException as error:
            log.debug("the topics cannot be listed: %s", error)

    def keys(self) -> KeysView[Any]:  # type: ignore[override]
        """Return the names."""
        self._know_all()
        return super().keys()

    def __getitem__(self, key: str | bytes) -> T:  # type: ignore[override]
        name = get_string(key, "a topic's name")
        reference = super().get(name)
        topic = reference() if reference is not None else None
        return topic if topic is not None else self._make(name)

    def get(self, key: str | bytes, default: Any = None) -> Any:
        """Return the topic of this name if the cluster has it, else `default`; this never creates one."""
        if key not in self:
            return default
        return self[key]

    def look_up(self, name: str, timeout_ms: int) -> T:
        """Return the topic of this name, as `[name]` does, within a time.

        :param timeout_ms: how long to ask brokers for it
        """
        reference = super().get(name)
        topic = reference() if reference is not None else None
        return topic if topic is not None else self._make(name, timeout_ms)

    def _make(self, name: str, timeout_ms: int | None = None) -> T:
        cluster = self._cluster()
        if cluster is None:
            raise ReferenceError("the KafkaClient of these topics is gone; keep a reference to the client")
        if self._should_exclude_topic(name):
            raise TopicNotFoundError(
                "the topic is internal; KafkaClient(exclude_internal_topics=False) shows it", topic=name
            )
        metadata = cluster.find_topic(name, timeout_ms)
        if metadata is not None:
            return self._create(cluster, name, metadata)
        return self.__missing__(name) if timeout_ms is None else self._missing(name, timeout_ms)

    def _create(self, cluster: TopicSource, name: str, metadata: TopicMetadata) -> T:
        if self._make_topic is None:
            raise TypeError("this cluster was made for work without topics; take those of a KafkaClient")
        made: T = self._make_topic(cluster, metadata)
        with self._lock:
            topic = self._live.get(name)
            if topic is None:
                topic = self._live[name] = made
        topic.update(cluster.topic_metadata(name) or metadata)  # which another worker may have brought up to date since
        self[Name.of(name)] = weakref.ref(topic)
        return topic

    def __missing__(self, key: str | bytes) -> T:
        return self._missing(get_string(key, "a topic's name"), None)

    def _create_topic(self, topic_name: str | bytes) -> None:
        """Create a topic by asking for it, if the brokers' auto.create.topics.enable allows that; errors as of a look-up."""
        self._missing(get_string(topic_name, "a topic's name"), None)

    def _missing(self, name: str, timeout_ms: int | None) -> T:
        cluster = self._cluster()
        if cluster is None:
            raise ReferenceError("the KafkaClient of these topics is gone; keep a reference to the client")
        hint_ms, began = HINT_MS, cluster.handler.now()
        if timeout_ms is not None:
            hint_ms = min(hint_ms, timeout_ms // 2)
        similar = self._similar(cluster, name, max(1, hint_ms))
        if timeout_ms is not None:
            timeout_ms = left_ms(began + timeout_ms / 1000, cluster.handler.now(), 1)
        if cluster.allow_auto_create_topics:
            text = "the cluster has no topic %s; asking for it by name, which creates it if the brokers allow that"
            if similar is None:
                log.info(text, name)
            else:
                log.warning(f"{text}. Did you mean %s, which exists?", name, similar)
        try:
            metadata = cluster.wait_for_topic(name, timeout_ms)
        except LOGIN_ERRORS:
            raise
        except ProtocolClientError as error:
            raise self._not_found(cluster, name, similar, error) from error
        return self._create(cluster, name, metadata)

    def _similar(self, cluster: TopicSource, name: str, timeout_ms: int) -> str | None:
        try:
            known = cluster.topic_names(timeout_ms)
        except KafkaException as error:  # the look-up itself raises what concerns it
            log.debug("topic %s: no hint at a name like it: %s", name, error)
            return None
        if name in known:  # it is being created, and not all brokers know it
            return None
        return most_similar(name, (one for one in known if not self._should_exclude_topic(one)))

    def _not_found(
        self, cluster: TopicSource, name: str, similar: str | None, error: ProtocolClientError
    ) -> TopicNotFoundError:
        if not isinstance(error, UnknownTopicOrPartition):
            said = error.text
        elif cluster.allow_auto_create_topics:
            said = "the cluster has no such topic, and its brokers do not create it; create it yourself"
        else:
            why = "this client creates no topics (allow_auto_create_topics=False)"
            said = f"the cluster has no such topic, and {why}; create it yourself"
        hint = "" if similar is None else f"; did you mean {similar!r}?"
        return TopicNotFoundError(f"{said}{hint}", topic=name, similar=similar)

    def values(self) -> list[T]:  # type: ignore[override]
        """Return the topics, making those that the application does not hold."""
        return [self[name] for name in list(self)]

    def items(self) -> list[tuple[str, T]]:  # type: ignore[override]
        """Return (name, topic) pairs, making the topics that the application does not hold."""
        return [(name, self[name]) for name in list(self)]

    def relink(self) -> None:
        """Point the topics that the application holds at the cluster's present brokers."""
        cluster = self._cluster()
        for topic in list(self._live.values()):
            metadata = cluster.topic_metadata(get_string(topic.name)) if cluster is not None else None
            if metadata is not None:
                topic.update(metadata)
            else:
                topic.unlink()

    def update_partition(self, name: str, found: PartitionMetadata) -> None:
        """Apply fresh metadata of one partition, if the application holds its topic."""
        cluster = self._cluster()
        topic = self._live.get(name)
        partition = None if topic is None else topic.partitions.get(found.id)
        if cluster is not None and partition is not None:
            partition.update(cluster.brokers, found)

    def live(self) -> Iterator[T]:
        """Yield the topics that the application holds."""
        yield from list(self._live.values())

    def _update_topics(
        self, metadata: Mapping[str, TopicMetadata], complete: bool = True, gone: Collection[str] = ()
    ) -> None:
        """Take over fresh metadata.

        :param complete: whether it covers all topics, so that others are gone
        :param gone: topics that the client asked for and the cluster does not have
        """
        for name, found in metadata.items():
            if self._should_exclude_topic(name):
                continue
            topic = self._live.get(name)
            if topic is not None:
                topic.update(found)
            self[Name.of(name)] = None if topic is None else weakref.ref(topic)
        known = list(super().__iter__())
        for name in [name for name in known if name not in metadata] if complete else gone:
            self.pop(name, None)
