"""Changes of settings, one by one (KIP-339), and the resources that have settings (KIP-1142)."""

from __future__ import annotations

from pykafka.protocol.fields import array, boolean, int8, int16, int32, string
from pykafka.protocol.schema import Request, Response, Struct


class AlterConfigsResponse(Response, api_key=33, versions="0-2", flexible="2+", early="1+"):
    """The outcome for each resource."""

    class Result(Struct):
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")

    throttle_time_ms: int = int32("0+")
    responses: list[Result] = array(Result, "0+")


class AlterConfigsRequest(Request[AlterConfigsResponse], api_key=33, versions="0-2", flexible="2+"):
    """A request that replaces all settings of resources, as clients sent it before KIP-339."""

    class Resource(Struct):
        class Config(Struct):
            name: str = string("0+")
            value: str | None = string("0+", nullable="0+", secret=True)

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[Config] = array(Config, "0+")

    resources: list[Resource] = array(Resource, "0+")
    validate_only: bool = boolean("0+")


class IncrementalAlterConfigsResponse(Response, api_key=44, versions="0-1", flexible="1+"):
    """The outcome for each resource."""

    class Result(Struct):
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")

    throttle_time_ms: int = int32("0+")
    responses: list[Result] = array(Result, "0+")


class IncrementalAlterConfigsRequest(
    Request[IncrementalAlterConfigsResponse], api_key=44, versions="0-1", flexible="1+"
):
    """A request that changes settings and leaves the others alone."""

    class Resource(Struct):
        class Config(Struct):
            name: str = string("0+")
            config_operation: int = int8("0+")
            value: str | None = string("0+", nullable="0+", secret=True)

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[Config] = array(Config, "0+")

    resources: list[Resource] = array(Resource, "0+")
    validate_only: bool = boolean("0+")


class ListConfigResourcesResponse(Response, api_key=74, versions="0-1", flexible="0+"):
    """The resources that have settings."""

    class ConfigResource(Struct):
        resource_name: str = string("0+")
        resource_type: int = int8("1+", 16, ignorable=True)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    config_resources: list[ConfigResource] = array(ConfigResource, "0+")


class ListConfigResourcesRequest(Request[ListConfigResourcesResponse], api_key=74, versions="0-1", flexible="0+"):
    """A request for the resources that have settings; of clients' metrics alone in version 0 (KIP-714)."""

    resource_types: list[int] = array("int8", "1+")
