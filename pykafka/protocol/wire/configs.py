"""Settings of topics and brokers."""

from __future__ import annotations

from pykafka.protocol.fields import array, boolean, int8, int16, int32, string
from pykafka.protocol.schema import Request, Response, Struct


class DescribeConfigsResponse(Response, api_key=32, versions="0-4", flexible="4+", early="2+"):
    """The settings of topics and brokers."""

    class Resource(Struct):
        """A topic (resource_type 2), a broker (4) or its log levels (8)."""

        class Config(Struct):
            class Synonym(Struct):
                """Another source of the setting."""

                name: str = string("1+")
                value: str | None = string("1+", nullable="0+", secret=True)
                source: int = int8("1+")

            name: str = string("0+")
            value: str | None = string("0+", nullable="0+", secret=True)
            read_only: bool = boolean("0+")
            is_default: bool = boolean("0")
            config_source: int = int8("1+", -1, ignorable=True)
            is_sensitive: bool = boolean("0+")
            synonyms: list[Synonym] = array(Synonym, "1+", ignorable=True)
            config_type: int = int8("3+", ignorable=True)
            documentation: str | None = string("3+", nullable="0+", ignorable=True)

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[Config] = array(Config, "0+")

    throttle_time_ms: int = int32("0+")
    results: list[Resource] = array(Resource, "0+")


class DescribeConfigsRequest(Request[DescribeConfigsResponse], api_key=32, versions="0-4", flexible="4+"):
    """A request for the settings of topics and brokers; None asks for all of a resource."""

    class Resource(Struct):
        """A topic (resource_type 2), a broker (4) or its log levels (8)."""

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configuration_keys: list[str] | None = array("string", "0+", nullable="0+")

    resources: list[Resource] = array(Resource, "0+")
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")
