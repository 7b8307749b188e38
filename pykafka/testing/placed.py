"""`PlacedCluster`: a fake cluster at given ports, which can be started again as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.names import ApiName
from pykafka.testing.releases import NEWEST
from pykafka.testing.static import set_static
from pykafka.testing.topicnames import is_legal


class Place(NamedTuple):
    """Where a broker listens.

    :param bind: the host to listen at
    :param host: the host that clients are told to connect to
    :param port: 0 for any free one
    """

    bind: str
    host: str
    port: int


class NewTopic(NamedTuple):
    """A topic to create; the fields are the parameters of `FakeCluster.create_topic`."""

    name: str
    partitions: int = 4
    replication_factor: int = 1

    @classmethod
    def of(cls, text: str) -> NewTopic:
        """Return the topic that a text such as "orders:4:3" names.

        :raises ValueError: it is not NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS
        """
        name, *numbers = text.split(":")
        if not is_legal(name) or len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
            raise ValueError(f"{text!r} is not NAME[:PARTITIONS[:REPLICAS]], such as orders:4")
        return cls(name, *map(int, numbers))


class PlacedCluster(FakeCluster):
    """A fake cluster at given places.

    :param places: of the brokers, the first broker's first
    :param topics: to create
    :param settings: of the brokers, as text: those of `pykafka.testing.static`
    :param as_version: the release that the brokers play
    :raises ValueError: a setting, a topic or the release cannot be played
    :raises OSError: a port is in use
    """

    def __init__(
        self,
        places: Sequence[Place],
        topics: Sequence[NewTopic] = (),
        settings: Mapping[str, str] | None = None,
        as_version: str = NEWEST.name,
    ) -> None:
        self._places = places
        self._arguments = (topics, settings, as_version)
        super().__init__(len(places), as_version=as_version)
        try:
            for name, value in (settings or {}).items():
                set_static(self._state, name, value)
            for topic in topics:
                self.create_topic(*topic)
        except BaseException:
            self.close()
            raise

    def _start(self, topics: Mapping[str, int], versions: Mapping[ApiName, tuple[int, int] | None]) -> None:
        for node, place in zip(self._state.nodes.values(), self._places, strict=True):
            node.bind, node.host, node.port = place
        super()._start(topics, versions)

    def again(self) -> PlacedCluster:
        """Return a new cluster at the same ports, with the arguments of this one, which is closed."""
        places = [Place(node.bind, node.host, node.port) for node in self._state.nodes.values()]
        return PlacedCluster(places, *self._arguments)
