"""The features of a cluster (KIP-584): levels that the brokers support, and those that the cluster has agreed on."""

from __future__ import annotations

from typing import Final, NamedTuple


class Feature(NamedTuple):
    """A feature, as brokers of Kafka 4.4 have it.

    :param lowest: the lowest level that they support
    :param highest: the highest one
    :param level: that a new cluster agrees on
    :param api_key: an API that comes with it
    :param version: the version of that API
    """

    lowest: int
    highest: int
    level: int
    api_key: int
    version: int


#: By name. Each is known by the version of an API that came with it: a release without that has no such feature.
FEATURES: Final = {
    "eligible.leader.replicas.version": Feature(0, 1, 1, 75, 0),
    "group.version": Feature(0, 1, 1, 68, 0),
    "kraft.version": Feature(0, 1, 0, 55, 2),
    "metadata.version": Feature(7, 33, 33, 55, 0),
    "share.version": Feature(0, 2, 2, 76, 0),
    "streams.version": Feature(0, 1, 1, 88, 0),
    "transaction.version": Feature(0, 2, 2, 0, 12),
}


class Features:
    """The levels that a cluster has agreed on."""

    def __init__(self) -> None:
        #: The finalized level by name; 0: it is off.
        self.levels = {name: feature.level for name, feature in FEATURES.items()}
        #: Counts the changes.
        self.epoch = 0

    def supported(self, versions: dict[int, range]) -> dict[str, Feature]:
        """Return the features whose APIs the brokers speak.

        :param versions: those that they speak, by API key
        """
        return {
            name: feature
            for name, feature in FEATURES.items()
            if feature.version in versions.get(feature.api_key, range(0))
        }

    def finalized(self, versions: dict[int, range]) -> dict[str, int]:
        """Return the levels of the features that are on.

        :param versions: those that the brokers speak, by API key
        """
        return {name: self.levels[name] for name in self.supported(versions) if self.levels[name] > 0}

    def set(self, name: str, level: int) -> None:
        """Change the level of a feature; 0 turns it off."""
        self.levels[name] = level
        self.epoch += 1
