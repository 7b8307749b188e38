"""The brokers of a cluster, and its features (KIP-584, KIP-631, KIP-700)."""

from __future__ import annotations

from pykafka.protocol.fields import array, boolean, int8, int16, int32, string
from pykafka.protocol.schema import Request, Response, Struct
from pykafka.protocol.wire.groups import INT32_MIN


class DescribeClusterResponse(Response, api_key=60, versions="0-2", flexible="0+"):
    """The brokers, or the controllers, of the cluster."""

    class Broker(Struct):
        broker_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("0+", None, nullable="0+")
        is_fenced: bool = boolean("2+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", None, nullable="0+")
    endpoint_type: int = int8("1+", 1)
    cluster_id: str = string("0+")
    controller_id: int = int32("0+", -1)
    brokers: list[Broker] = array(Broker, "0+")
    cluster_authorized_operations: int = int32("0+", INT32_MIN)


class DescribeClusterRequest(Request[DescribeClusterResponse], api_key=60, versions="0-2", flexible="0+"):
    """A request for the brokers of the cluster; for its controllers from version 1 on (KIP-919)."""

    include_cluster_authorized_operations: bool = boolean("0+")
    endpoint_type: int = int8("1+", 1)
    include_fenced_brokers: bool = boolean("2+")


class UnregisterBrokerResponse(Response, api_key=64, versions="0", flexible="0+"):
    """Whether the broker was unregistered."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class UnregisterBrokerRequest(Request[UnregisterBrokerResponse], api_key=64, versions="0", flexible="0+"):
    """A request that forgets a broker that is gone for good."""

    broker_id: int = int32("0+")


class UpdateFeaturesResponse(Response, api_key=57, versions="0-2", flexible="0+"):
    """The outcome of each update."""

    class Result(Struct):
        feature: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[Result] = array(Result, "0-1", ignorable=True)


class UpdateFeaturesRequest(Request[UpdateFeaturesResponse], api_key=57, versions="0-2", flexible="0+"):
    """A request that changes the levels of features."""

    class FeatureUpdate(Struct):
        """The new level of one feature."""

        feature: str = string("0+")
        max_version_level: int = int16("0+")
        allow_downgrade: bool = boolean("0")
        upgrade_type: int = int8("1+", 1)

    timeout_ms: int = int32("0+", 60000)
    feature_updates: list[FeatureUpdate] = array(FeatureUpdate, "0+")
    validate_only: bool = boolean("1+")
