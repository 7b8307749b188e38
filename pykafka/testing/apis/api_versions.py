"""ApiVersions: what the broker speaks."""

from __future__ import annotations

from pykafka.protocol import wire
from pykafka.testing.call import Call, api


@api(wire.ApiVersionsRequest)
def api_versions(call: Call, request: wire.ApiVersionsRequest) -> wire.ApiVersionsResponse:
    """List the APIs of the broker, from the table that the modules of this room fill."""
    listed = [
        wire.ApiVersionsResponse.ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
        for key, versions in sorted(call.state.versions.items())
    ]
    return wire.ApiVersionsResponse(api_keys=listed)
