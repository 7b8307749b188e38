"""Access control lists (ACLs)."""

from __future__ import annotations

from pykafka.protocol.fields import array, int8, int16, int32, string
from pykafka.protocol.schema import Request, Response, Struct


class DescribeAclsResponse(Response, api_key=29, versions="0-3", flexible="2+", early="1+"):
    """The ACLs that match."""

    class Resource(Struct):
        class Acl(Struct):
            """The right, or the lack of it, of one principal."""

            principal: str = string("0+")
            host: str = string("0+")
            operation: int = int8("0+")
            permission_type: int = int8("0+")

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        pattern_type: int = int8("1+", 3)
        acls: list[Acl] = array(Acl, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resources: list[Resource] = array(Resource, "0+")


class DescribeAclsRequest(Request[DescribeAclsResponse], api_key=29, versions="0-3", flexible="2+"):
    """A request for the ACLs that match a filter; null matches anything."""

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", 3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class CreateAclsResponse(Response, api_key=30, versions="0-3", flexible="2+", early="1+"):
    """The outcome of each creation."""

    class Result(Struct):
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[Result] = array(Result, "0+")


class CreateAclsRequest(Request[CreateAclsResponse], api_key=30, versions="0-3", flexible="2+"):
    """A request that creates ACLs."""

    class Creation(Struct):
        """One new ACL."""

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        resource_pattern_type: int = int8("1+", 3)
        principal: str = string("0+")
        host: str = string("0+")
        operation: int = int8("0+")
        permission_type: int = int8("0+")

    creations: list[Creation] = array(Creation, "0+")


class DeleteAclsResponse(Response, api_key=31, versions="0-3", flexible="2+", early="1+"):
    """The ACLs that each filter has deleted."""

    class FilterResult(Struct):
        """The outcome of one filter."""

        class MatchingAcl(Struct):
            """One ACL that was deleted, or could not be."""

            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+")
            resource_type: int = int8("0+")
            resource_name: str = string("0+")
            pattern_type: int = int8("1+", 3)
            principal: str = string("0+")
            host: str = string("0+")
            operation: int = int8("0+")
            permission_type: int = int8("0+")

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        matching_acls: list[MatchingAcl] = array(MatchingAcl, "0+")

    throttle_time_ms: int = int32("0+")
    filter_results: list[FilterResult] = array(FilterResult, "0+")


class DeleteAclsRequest(Request[DeleteAclsResponse], api_key=31, versions="0-3", flexible="2+"):
    """A request that deletes the ACLs that match filters."""

    class Filter(Struct):
        resource_type_filter: int = int8("0+")
        resource_name_filter: str | None = string("0+", nullable="0+")
        pattern_type_filter: int = int8("1+", 3)
        principal_filter: str | None = string("0+", nullable="0+")
        host_filter: str | None = string("0+", nullable="0+")
        operation: int = int8("0+")
        permission_type: int = int8("0+")

    filters: list[Filter] = array(Filter, "0+")
