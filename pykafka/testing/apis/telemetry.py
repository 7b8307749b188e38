"""Metrics of clients (KIP-714): a subscription to all of them; what clients push is dropped."""

from __future__ import annotations

from uuid import UUID

from pykafka.protocol import wire
from pykafka.testing.call import Call, api

_PUSH_INTERVAL_MS = 300_000
_MAX_BYTES = 1024 * 1024
_NO_ID = UUID(int=0)


@api(wire.GetTelemetrySubscriptionsRequest)
def get_telemetry_subscriptions(
    call: Call, request: wire.GetTelemetrySubscriptionsRequest
) -> wire.GetTelemetrySubscriptionsResponse:
    """Name the client if it has no id yet, and ask for all metrics."""
    known = request.client_instance_id
    return wire.GetTelemetrySubscriptionsResponse(
        client_instance_id=call.state.new_uuid() if known == _NO_ID else known,
        subscription_id=1,
        push_interval_ms=_PUSH_INTERVAL_MS,
        telemetry_max_bytes=_MAX_BYTES,
        requested_metrics=[""],
    )


@api(wire.PushTelemetryRequest)
def push_telemetry(call: Call, request: wire.PushTelemetryRequest) -> wire.PushTelemetryResponse:
    """Accept metrics."""
    return wire.PushTelemetryResponse()
