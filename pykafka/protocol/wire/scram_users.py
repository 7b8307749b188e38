"""The credentials of users who log in by SCRAM (KIP-554)."""

from __future__ import annotations

from pykafka.protocol.fields import array, binary, int8, int16, int32, string
from pykafka.protocol.schema import Request, Response, Struct


class DescribeUserScramCredentialsResponse(Response, api_key=50, versions="0", flexible="0+"):
    """Mechanisms and iterations of each user; brokers never tell passwords."""

    class Result(Struct):
        class CredentialInfo(Struct):
            mechanism: int = int8("0+")
            iterations: int = int32("0+")

        user: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[Result] = array(Result, "0+")


class DescribeUserScramCredentialsRequest(
    Request[DescribeUserScramCredentialsResponse], api_key=50, versions="0", flexible="0+"
):
    """A request for the mechanisms of users; None asks for all users."""

    class User(Struct):
        name: str = string("0+")

    users: list[User] | None = array(User, "0+", nullable="0+")


class AlterUserScramCredentialsResponse(Response, api_key=51, versions="0", flexible="0+"):
    """The outcome for each user."""

    class Result(Struct):
        user: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[Result] = array(Result, "0+")


class AlterUserScramCredentialsRequest(
    Request[AlterUserScramCredentialsResponse], api_key=51, versions="0", flexible="0+"
):
    """A request that sets or deletes users' credentials; the client salts the passwords."""

    class Deletion(Struct):
        name: str = string("0+")
        mechanism: int = int8("0+")

    class Upsertion(Struct):
        name: str = string("0+")
        mechanism: int = int8("0+")
        iterations: int = int32("0+")
        salt: bytes = binary("0+", secret=True)
        salted_password: bytes = binary("0+", secret=True)

    deletions: list[Deletion] = array(Deletion, "0+")
    upsertions: list[Upsertion] = array(Upsertion, "0+")
