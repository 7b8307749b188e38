"""ApiVersions: what the broker speaks, and which features the cluster has agreed on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pykafka.exceptions import InvalidRequest, RebootstrapRequired
from pykafka.protocol import wire
from pykafka.testing.call import Call, api

if TYPE_CHECKING:
    from pykafka.testing.state import ClusterState

#: What brokers accept as a client's name and version (KIP-511).
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@api(wire.ApiVersionsRequest)
def api_versions(call: Call, request: wire.ApiVersionsRequest) -> wire.ApiVersionsResponse:
    """List the APIs of the broker, from the table that the modules of this room fill."""
    if code := _refused(call, request):
        return wire.ApiVersionsResponse(error_code=code)
    state = call.state
    listed = [
        wire.ApiVersionsResponse.ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
        for key, versions in sorted(state.versions.items())
    ]
    answer = wire.ApiVersionsResponse(api_keys=listed)
    if call.version >= 3:
        _add_features(state, answer, call.version)
    return answer


def _refused(call: Call, request: wire.ApiVersionsRequest) -> int:
    if call.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return int(InvalidRequest.ERROR_CODE)
    # KIP-1242: the client says whom it means.
    is_elsewhere = request.cluster_id is not None and request.cluster_id != call.state.cluster_id
    if is_elsewhere or request.node_id not in (-1, call.node.node_id):
        return int(RebootstrapRequired.ERROR_CODE)
    return 0


def _add_features(state: ClusterState, answer: wire.ApiVersionsResponse, version: int) -> None:
    features = state.features
    # Clients of version 3 cannot read a lowest level of 0: brokers leave these out, as Java's check of the time failed.
    answer.supported_features = [
        wire.ApiVersionsResponse.SupportedFeature(name=name, min_version=feature.lowest, max_version=feature.highest)
        for name, feature in features.supported(state.versions).items()
        if version > 3 or feature.lowest > 0
    ]
    answer.finalized_features = [
        wire.ApiVersionsResponse.FinalizedFeature(name=name, max_version_level=level, min_version_level=level)
        for name, level in features.finalized(state.versions).items()
    ]
    answer.finalized_features_epoch = features.epoch
