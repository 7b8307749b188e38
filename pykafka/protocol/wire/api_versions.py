"""The versions that a broker supports."""

from __future__ import annotations

from pykafka.protocol.fields import array, boolean, int16, int32, int64, string
from pykafka.protocol.schema import Request, Response, Struct


class ApiVersionsResponse(Response, api_key=18, versions="0-5", flexible="3+", early="2+"):
    """The versions of each API that the broker supports; in the form of version 0 if the broker refuses (35)."""

    class ApiVersion(Struct):
        """The lowest and highest version of one API."""

        api_key: int = int16("0+")
        min_version: int = int16("0+")
        max_version: int = int16("0+")

    class SupportedFeature(Struct):
        """A feature and the levels that the broker supports."""

        name: str = string("3+")
        min_version: int = int16("3+")
        max_version: int = int16("3+")

    class FinalizedFeature(Struct):
        """A feature and the levels that the cluster has agreed on."""

        name: str = string("3+")
        max_version_level: int = int16("3+")
        min_version_level: int = int16("3+")

    error_code: int = int16("0+")
    api_keys: list[ApiVersion] = array(ApiVersion, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeature] = array(SupportedFeature, "3+", ignorable=True, tag=0)
    finalized_features_epoch: int = int64("3+", -1, ignorable=True, tag=1)
    finalized_features: list[FinalizedFeature] = array(FinalizedFeature, "3+", ignorable=True, tag=2)
    zk_migration_ready: bool = boolean("3+", ignorable=True, tag=3)


class ApiVersionsRequest(Request[ApiVersionsResponse], api_key=18, versions="0-5", flexible="3+"):
    """A request for the versions of each API. Version 3 names the client (KIP-511), version 5 the broker (KIP-1242)."""

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)
    cluster_id: str | None = string("5+", None, nullable="5+", ignorable=True)
    node_id: int = int32("5+", -1, ignorable=True)
