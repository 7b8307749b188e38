"""SaslHandshake and SaslAuthenticate: clients log in; and the credentials of SCRAM, as administrators see and change them."""

from __future__ import annotations

from collections import Counter

from pykafka.admin.scram_users import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism
from pykafka.exceptions import (
    DuplicateResource,
    IllegalSaslState,
    ResourceNotFound,
    SaslAuthenticationFailed,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from pykafka.protocol import wire
from pykafka.testing.call import Call, api, refusing
from pykafka.testing.sasl import LoginRefusedError, Sasl, ScramCredential

_Described = wire.DescribeUserScramCredentialsResponse.Result
_Altered = wire.AlterUserScramCredentialsResponse.Result
_Alter = wire.AlterUserScramCredentialsRequest


@api(wire.SaslHandshakeRequest)
def sasl_handshake(call: Call, request: wire.SaslHandshakeRequest) -> wire.SaslHandshakeResponse:
    """Begin a login; in version 0 tokens follow that are no requests."""
    login = call.session.login
    if login is None or not login.may_begin():
        raise IllegalSaslState
    answer = wire.SaslHandshakeResponse(mechanisms=login.sasl.mechanisms)
    if request.mechanism in login.sasl.mechanisms:
        login.begin(request.mechanism, is_bare=call.version == 0)
    else:
        answer.error_code, call.is_last = UnsupportedSaslMechanism.ERROR_CODE, True
    return answer


@api(wire.SaslAuthenticateRequest)
def sasl_authenticate(call: Call, request: wire.SaslAuthenticateRequest) -> wire.SaslAuthenticateResponse:
    """Take a client's token; brokers wait a little before they refuse wrong credentials."""
    login = call.session.login
    if login is None or not login.is_under_way:
        raise IllegalSaslState("SaslAuthenticate request received after successful authentication")
    try:
        token = login.step(bytes(request.auth_bytes))
    except LoginRefusedError as error:
        call.is_last = True
        call.delay_ms += login.sasl.failure_delay_ms
        raise SaslAuthenticationFailed(str(error)) from error
    return wire.SaslAuthenticateResponse(auth_bytes=token, error_message="", session_lifetime_ms=login.lifetime_ms)


@api(wire.DescribeUserScramCredentialsRequest)
def describe_user_scram_credentials(
    call: Call, request: wire.DescribeUserScramCredentialsRequest
) -> wire.DescribeUserScramCredentialsResponse:
    """Describe the credentials of users, or of all of them."""
    scram = call.state.sasl.scram
    asked = Counter(user.name for user in request.users or ())
    results = []
    for name in asked or sorted({user for user, _ in scram}):
        result = _Described(user=name, error_message=None)
        with refusing(result):
            if asked[name] > 1:
                text = "Cannot describe SCRAM credentials for the same user twice in a single request"
                raise DuplicateResource(f"{text}: {name}")
            result.credential_infos = [
                _Described.CredentialInfo(mechanism=kind, iterations=scram[name, str(kind)].iterations)
                for kind in ScramMechanism
                if (name, str(kind)) in scram
            ]
            if not result.credential_infos:
                raise ResourceNotFound(f"Attempt to describe a user credential that does not exist: {name}")
        results.append(result)
    return wire.DescribeUserScramCredentialsResponse(error_message=None, results=results)


@api(_Alter)
def alter_user_scram_credentials(call: Call, request: _Alter) -> wire.AlterUserScramCredentialsResponse:
    """Set and delete credentials of users: of each one at most."""
    changes: list[_Alter.Deletion | _Alter.Upsertion] = [*request.deletions, *request.upsertions]
    counts = Counter(change.name for change in changes)
    results = {}
    for change in changes:
        results[change.name] = result = _Altered(user=change.name, error_message=None)
        with refusing(result):
            if counts[change.name] > 1:
                raise DuplicateResource("A user credential cannot be altered twice in the same request")
            _alter(call.state.sasl, change)
    return wire.AlterUserScramCredentialsResponse(results=list(results.values()))


def _alter(sasl: Sasl, change: _Alter.Deletion | _Alter.Upsertion) -> None:
    if not change.name:
        raise UnacceptableCredential("Username must not be empty")
    if change.mechanism not in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    key = change.name, str(ScramMechanism(change.mechanism))
    if isinstance(change, _Alter.Deletion):
        if key not in sasl.scram:
            raise ResourceNotFound("Attempt to delete a user credential that does not exist")
        del sasl.scram[key]
        return
    if not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
        raise UnacceptableCredential(f"Too {'few' if change.iterations < MIN_ITERATIONS else 'many'} iterations")
    salt, salted = bytes(change.salt), bytes(change.salted_password)
    sasl.scram[key] = ScramCredential(salt, change.iterations, lambda: salted)
