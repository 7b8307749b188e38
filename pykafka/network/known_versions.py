"""`KnownVersions`: what the brokers of one cluster were found to speak, shared by them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pykafka.protocol import wire
from pykafka.protocol.versions import HANG_UPS, NAMES_BROKER, RANGES_0_8_2, Identity

if TYPE_CHECKING:
    from pykafka.protocol.versions import ApiRanges

#: How many connections must show 0.8.2 where other brokers of the cluster are newer, as in a rolling upgrade.
HANG_UPS_BESIDE_NEWER = 8
#: The key of GetTelemetrySubscriptions, whose module ordinary clients do not load.
TELEMETRY = 71
#: DescribeTopicPartitions.
PAGES = 75

log = logging.getLogger(__name__)

# Addresses that were found to be 0.8.2 in this process, for its next clients: no more than a hint.
_hints: set[str] = set()


def forget_hints() -> None:
    """Forget which addresses were found to be 0.8.2, as a new process does not know them."""
    _hints.clear()


class KnownVersions:
    """The known versions of one cluster's brokers: newer than Kafka 0.8.2, or not.

    A broker that was newer once stays newer, by its number and by its address: where it closes connections later on, that is a
    passing error. State: single stores.

    :param broker_version: a hint: "0.8.2" saves most of the search where brokers are that old
    """

    def __init__(self, broker_version: str = "") -> None:
        self._hinted = broker_version.startswith("0.8")
        self._newer: set[int | str] = set()
        self._oldest: set[str] = set()
        #: The version of ApiVersions to begin with, by address, if brokers there close the connection on higher ones.
        self.first_versions: dict[str, int] = {}
        #: Whether a broker takes metrics of clients (KIP-714): only those with a plugin for them list its key.
        self.take_telemetry = False
        #: Whether the broker that answered last describes topics page by page (KIP-966).
        self.has_pages = False
        #: The id of the cluster, for brokers to check (KIP-1242); None until it is known, and if they are not to check it.
        self.cluster_id: str | None = None
        #: Whether a broker has asked this client to begin again at its first addresses (REBOOTSTRAP_REQUIRED).
        self.sent_back = False
        # Whether the broker that answered last checks whom the client means: others would refuse the question first.
        self._checks = False

    def hang_ups(self, id_: int, address: str) -> int | None:
        """Return how many connections must show that a broker is 0.8.2; None if it cannot be.

        :param id_: the broker's number; -1 for an address that may lead to any
        """
        if address in self._newer or id_ in self._newer:
            return None
        if self._newer:
            return HANG_UPS_BESIDE_NEWER
        return 1 if self._hinted or self._oldest or address in _hints else HANG_UPS

    def identity(self, id_: int) -> Identity | None:
        """Return the broker that a connection is meant for; None if its id is not known, or brokers do not check it.

        :param id_: the broker's number; -1 for an address that may lead to any
        """
        return Identity(self.cluster_id, id_) if self.cluster_id and id_ >= 0 and self._checks else None

    def learn(self, id_: int, address: str, ranges: ApiRanges) -> None:
        """Remember a broker's versions; log a warning if it is 0.8.2."""
        self.has_pages = PAGES in ranges
        self._checks = ranges.get(wire.ApiVersionsRequest.api_key, (0, 0))[1] >= NAMES_BROKER
        if ranges is not RANGES_0_8_2:
            self.take_telemetry = self.take_telemetry or TELEMETRY in ranges
            self._newer.add(address)
            if id_ >= 0:
                self._newer.add(id_)
            if address in self._oldest:
                log.warning(
                    "broker %s is newer than Kafka 0.8.2 after all; this client uses its newer versions from now on",
                    address,
                )
            self._oldest.discard(address)
            _hints.discard(address)
            return
        if address not in self._oldest:
            log.log(
                logging.INFO if self._hinted else logging.WARNING,
                "broker %s answers Metadata of version 0 and closes the connection when asked for its versions: it is taken "
                "for Kafka 0.8.2, without timestamps, headers, groups and idempotence; the client asks again from time to time",
                address,
            )
        self._oldest.add(address)
        _hints.add(address)
