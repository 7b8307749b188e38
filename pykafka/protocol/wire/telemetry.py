"""Clients' metrics that brokers subscribe to (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from pykafka.protocol.fields import array, binary, boolean, int8, int16, int32, uuid
from pykafka.protocol.schema import Request, Response


class GetTelemetrySubscriptionsResponse(Response, api_key=71, versions="0", flexible="0+"):
    """The metrics that the broker wants of this client, and how to send them."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    client_instance_id: UUID = uuid("0+")
    subscription_id: int = int32("0+")
    accepted_compression_types: list[int] = array("int8", "0+")
    push_interval_ms: int = int32("0+")
    telemetry_max_bytes: int = int32("0+")
    delta_temporality: bool = boolean("0+")
    requested_metrics: list[str] = array("string", "0+")


class GetTelemetrySubscriptionsRequest(
    Request[GetTelemetrySubscriptionsResponse], api_key=71, versions="0", flexible="0+"
):
    """A request for the subscriptions; a zero id asks the broker to give this client one."""

    client_instance_id: UUID = uuid("0+")


class PushTelemetryResponse(Response, api_key=72, versions="0", flexible="0+"):
    """Whether the broker has taken the metrics."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")


class PushTelemetryRequest(Request[PushTelemetryResponse], api_key=72, versions="0", flexible="0+"):
    """Metrics of this client: OpenTelemetry's MetricsData, compressed."""

    client_instance_id: UUID = uuid("0+")
    subscription_id: int = int32("0+")
    terminating: bool = boolean("0+")
    compression_type: int = int8("0+")
    metrics: bytes = binary("0+")
