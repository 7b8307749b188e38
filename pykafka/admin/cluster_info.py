"""The brokers of the cluster, and its features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from pykafka._version import __version__
from pykafka.admin.base import TIMEOUT_MS, AdminBase
from pykafka.admin.releases import need
from pykafka.admin.results import AclOperation, Results, operations, response_error
from pykafka.admin.routing import AnyBroker, Controller, RequestFactory
from pykafka.exceptions import KafkaException, UnsupportedVersion
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node

_FEATURES_VERSION = 3


@dataclass(frozen=True)
class BrokerDescription:
    """A broker.

    :param id: its number
    :param host: its address
    :param port: its TCP port
    :param rack: if it has one
    :param fenced: whether it may not lead or keep partitions at present
    """

    id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


@dataclass(frozen=True)
class ClusterDescription:
    """A cluster.

    :param cluster_id: None before Kafka 0.10.1
    :param controller: a broker that takes changes, by id; None if the cluster names none
    :param brokers: by id
    :param authorized_operations: what this user may do; None if that was not asked for
    """

    cluster_id: str | None
    controller: int | None
    brokers: tuple[BrokerDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None


class Levels(NamedTuple):
    """A range of levels of a feature."""

    low: int
    high: int


@dataclass(frozen=True)
class FeatureDescription:
    """The features of a cluster.

    :param finalized: the levels that all brokers have agreed on
    :param supported: the levels that the broker that was asked supports
    :param epoch: counts changes of the finalized features; None before there are any
    """

    finalized: Mapping[str, Levels]
    supported: Mapping[str, Levels]
    epoch: int | None


class UpgradeType(IntEnum):
    """The kind of change of a feature; the numbers are the protocol's. UNSAFE_DOWNGRADE may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class ClusterAdmin(AdminBase):
    """The cluster as a whole."""

    def describe_cluster(
        self,
        *,
        authorized_operations: bool = False,
        fenced_brokers: bool = False,
        timeout_ms: int = TIMEOUT_MS,
    ) -> ClusterDescription:
        """Return the brokers of the cluster; all releases do.

        :param authorized_operations: also what this user may do with the cluster (since Kafka 2.8)
        :param fenced_brokers: also brokers that are registered and not there (since Kafka 4.0)
        :param timeout_ms: of the whole call
        """

        def request(broker: Node, left: int) -> wire.DescribeClusterRequest:
            made = wire.DescribeClusterRequest(include_cluster_authorized_operations=authorized_operations)
            if fenced_brokers:
                need(broker, wire.DescribeClusterRequest, 2, "fenced_brokers", "4.0")
                made.include_fenced_brokers = True
            return made

        try:
            return self._ask_one(wire.DescribeClusterRequest, request, _described, timeout_ms)
        except UnsupportedVersion:
            if authorized_operations or fenced_brokers:
                raise
        older = wire.MetadataRequest(topics=[], allow_auto_topic_creation=False)
        return self._ask_one(wire.MetadataRequest, lambda broker, left: older, _of_metadata, timeout_ms)

    def unregister_broker(self, broker_id: int, *, timeout_ms: int = TIMEOUT_MS) -> None:
        """Make a cluster without ZooKeeper forget a broker that is gone for good (since Kafka 3.3).

        :param broker_id: its number
        :param timeout_ms: of the whole call
        :raises BrokerIdNotRegistered: there is no such broker
        """

        def request(items: Sequence[int], broker: Node, left: int) -> wire.UnregisterBrokerRequest:
            return wire.UnregisterBrokerRequest(broker_id=items[0])

        def read(
            response: wire.UnregisterBrokerResponse, items: Sequence[int], broker: Node
        ) -> Mapping[int, KafkaException | None]:
            return {items[0]: response_error(response, f"broker {items[0]}")}

        factory = RequestFactory(wire.UnregisterBrokerRequest, request, read, once=True, waits=True)
        self._ask([broker_id], AnyBroker(self._cluster), factory, timeout_ms, True)

    def describe_features(self, *, timeout_ms: int = TIMEOUT_MS) -> FeatureDescription:
        """Return the features of the cluster (since Kafka 2.7).

        :param timeout_ms: of the whole call
        """

        def request(broker: Node, left: int) -> wire.ApiVersionsRequest:
            need(broker, wire.ApiVersionsRequest, _FEATURES_VERSION, "a description of features", "2.7")
            return wire.ApiVersionsRequest(client_software_name="pykafka", client_software_version=__version__)

        def read(response: wire.ApiVersionsResponse) -> FeatureDescription:
            final = {
                one.name: Levels(one.min_version_level, one.max_version_level) for one in response.finalized_features
            }
            supported = {one.name: Levels(one.min_version, one.max_version) for one in response.supported_features}
            epoch = response.finalized_features_epoch
            return FeatureDescription(final, supported, epoch if epoch >= 0 else None)

        return self._ask_one(wire.ApiVersionsRequest, request, read, timeout_ms)

    def update_features(
        self,
        levels: Mapping[str, int],
        upgrade: UpgradeType = UpgradeType.UPGRADE,
        *,
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Change the levels of features, all or none since Kafka 4.0 (since Kafka 2.7; useful since 3.3).

        :param levels: {feature: level}; 0 removes a feature
        :param upgrade: whether levels may go down
        :param validate_only: check everything, and change nothing (since Kafka 3.3)
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for features that failed, see `Results`
        :raises InvalidUpdateVersion: the level is not possible
        """

        def request(items: Sequence[str], broker: Node, left: int) -> wire.UpdateFeaturesRequest:
            make = wire.UpdateFeaturesRequest.FeatureUpdate
            if upgrade != UpgradeType.UPGRADE or validate_only:
                need(broker, wire.UpdateFeaturesRequest, 1, "a downgrade, or validate_only,", "3.3")
            updates = [make(feature=name, max_version_level=levels[name], upgrade_type=int(upgrade)) for name in items]
            return wire.UpdateFeaturesRequest(feature_updates=updates, timeout_ms=left, validate_only=validate_only)

        def read(
            response: wire.UpdateFeaturesResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, KafkaException | None]:
            error = response_error(response)
            found: dict[str, KafkaException | None] = dict.fromkeys(items, error)
            for result in response.results:
                found[result.feature] = error or response_error(result, f"feature {result.feature}")
            return found

        factory = RequestFactory(wire.UpdateFeaturesRequest, request, read, once=True, waits=True)
        return self._ask(levels, Controller(self._cluster), factory, timeout_ms, raise_errors)


def _described(response: wire.DescribeClusterResponse) -> ClusterDescription:
    brokers = [
        BrokerDescription(one.broker_id, one.host, one.port, one.rack, one.is_fenced) for one in response.brokers
    ]
    may: frozenset[AclOperation] | None = operations(response.cluster_authorized_operations)
    return _cluster(response, brokers, may)


def _of_metadata(response: wire.MetadataResponse) -> ClusterDescription:
    brokers = [BrokerDescription(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers]
    return _cluster(response, brokers, None)


def _cluster(
    response: wire.DescribeClusterResponse | wire.MetadataResponse,
    brokers: Iterable[BrokerDescription],
    authorized_operations: frozenset[AclOperation] | None,
) -> ClusterDescription:
    return ClusterDescription(
        response.cluster_id,
        response.controller_id if response.controller_id >= 0 else None,
        tuple(sorted(brokers, key=lambda broker: broker.id)),
        authorized_operations,
    )
