"""`Gssapi`: logins by Kerberos (RFC 4752), through the package `gssapi`."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException, SaslAuthenticationFailed, TokenTimeoutError, TokenUnavailableError
from pykafka.security.background_calls import BackgroundCall, BackgroundCalls
from pykafka.security.mechanism import SAID_MAX, Credentials, always, credential, in_one_line

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler

#: The bit of "no security layer" in the broker's offer and our choice: TLS protects connections.
NO_LAYER = 1
#: How long a ticket that was just looked at counts as there (s).
FRESH_S = 5.0
#: Where the library's words are that say more than the kind of the failure.
_MINOR = re.compile(r"Minor \(\d+\): (.+)")
#: The first code of Kerberos' own table, and the advice by code from there on. MIT and Heimdal have the same codes.
_TABLE = -1765328384
_CLOCKS = "compare the clocks of this machine, the KDC and the broker"
_KEYS = "the keytab's keys are not the principal's present ones: export them again"
_KDC = "check the realm's kdc= in krb5.conf (KRB5_CONFIG names the file), and that this machine reaches it"
_ACCOUNT = "ask whoever runs the KDC about this principal"
_REMEDIES = {
    **{1: _ACCOUNT, 6: "check principal= and its realm", 18: _ACCOUNT, 23: _ACCOUNT},
    7: "check host= and service=, or connect by the name in the broker's principal; unless krb5.conf has "
    "dns_canonicalize_hostname = false and rdns = false, Kerberos takes the name that DNS has",
    **{14: "the KDC has no cipher that krb5.conf permits: see permitted_enctypes there"},
    **{24: _KEYS, 31: _KEYS, 33: _CLOCKS, 37: _CLOCKS},
    32: "run kinit again, or give keytab=",
    **{154: _KDC, 156: _KDC, 220: _KDC},
    224: "set default_realm in krb5.conf (KRB5_CONFIG names the file), or give principal= with its realm",
}
#: There are no credentials: no keys, no cache, or neither for the principal.
_NONE = {141, 181, 195}


class Gssapi(Credentials):
    """Log in by Kerberos.

    The ticket comes from the credential cache (`kinit`), or by `keytab`: then this client gets its own, renews it, and keeps it
    in memory, beside the cache. It needs the package `gssapi` (extra `gssapi`) with Kerberos' libraries.

    :param service: the name of the brokers' service: the first part of their principals
    :param principal: whom to log in as, such as "alice@EXAMPLE.ORG"; None for the cache's or keytab's own
    :param keytab: path of a file with the principal's keys; None uses tickets that are there
    :param host: the host in the brokers' principals; None for the name that the client connects to
    :raises ImportError: the package is missing
    :raises TypeError, ValueError: a parameter is no text, or empty; or `service` is a whole principal
    """

    name = "GSSAPI"
    waits = True

    def __init__(
        self,
        service: str = "kafka",
        *,
        principal: str | None = None,
        keytab: str | None = None,
        host: str | None = None,
    ) -> None:
        for name, value in (("service", service), ("principal", principal), ("keytab", keytab), ("host", host)):
            if value is not None:
                credential(value, name)
        if {"/", "@"} & {*service}:
            raise ValueError(
                f"service must be the first part of the brokers' principals, as 'kafka' of kafka/HOST@REALM, not {service!r}"
            )
        _library()
        self.service = service
        self.principal = principal
        self.keytab = keytab
        self.host = host
        #: By host. It changes by single steps: logins are of threads, hubs and native threads at once.
        self._tickets: dict[str, Tickets] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} service={self.service!r} principal={self.principal!r}>"

    def __getstate__(self) -> dict[str, Any]:
        # Tickets are got again when this is unpickled.
        return {name: value for name, value in vars(self).items() if name != "_tickets"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._tickets = {}

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash((self.name, self.service, self.principal))

    @property
    def remedy(self) -> str:
        """The advice for a user if a broker refuses the ticket."""
        return f"check the ticket (klist), the clocks, and that the broker's principal is {self.service}/HOST"

    def for_host(self, host: str) -> Tickets:
        """Return the tickets for a broker.

        :param host: its name, as the client connects to it
        """
        name = self.host or host.rstrip(".")
        return self._tickets.setdefault(name, Tickets(self, name))

    def begin(self, host: str) -> GssapiExchange:
        """Start a login.

        :param host: the broker's name; part of its principal
        """
        return self.for_host(host).begin(host)

    def context(self, host: str) -> Any:
        """Return a security context of the library for a broker. It may ask the KDC.

        :param host: in the broker's principal
        :raises TokenUnavailableError: there is no ticket
        """
        gssapi = _library()
        try:
            target = gssapi.Name(f"{self.service}@{host}", gssapi.NameType.hostbased_service)
            name = None if self.principal is None else gssapi.Name(self.principal, gssapi.NameType.user)
            options = {"name": name}
            if self.keytab is not None:
                # A cache of its own: the user's one may have another principal's tickets, which would be used, or overwritten.
                cache = f"MEMORY:pykafka:{self.principal or ''}:{self.keytab}"
                options["store"] = {"client_keytab": self.keytab, "ccache": cache}
            credentials = None
            if name is not None or self.keytab is not None:
                credentials = gssapi.Credentials(usage="initiate", **options)
            # The broker must prove itself, too; the tokens of a login come in order.
            wanted = gssapi.RequirementFlag
            flags = [wanted.mutual_authentication, wanted.out_of_sequence_detection]
            return gssapi.SecurityContext(name=target, creds=credentials, flags=flags, usage="initiate")
        except gssapi.exceptions.GSSError as error:
            raise self.explain(error, host) from None
        except NotImplementedError:
            raise TokenUnavailableError(
                "this machine's Kerberos library takes no keytab= of a program: leave it out, and run kinit -k -t KEYTAB"
            ) from None

    def explain(self, error: Exception, host: str) -> TokenUnavailableError:
        """Return the error of a call of the library that got no ticket."""
        code = (getattr(error, "min_code", 0) - _TABLE) & 0xFFFFFFFF
        said, remedy = _words(error), _REMEDIES.get(code, self.remedy)
        if code in _NONE:
            whose = "" if self.principal is None else f" of {self.principal}"
            remedy = f"run kinit, so that there is a ticket{whose} (klist shows them), or give keytab="
            if self.keytab is not None:  # the library's words are of a cache that is empty then
                said = f"it finds no keys{whose} in {self.keytab}"
                remedy = "check that this process can read the file, and what it has (klist -k)"
        return TokenUnavailableError(
            f"Kerberos gives no ticket for {self!r} to {self.service}/{host}: {said}; {remedy}"
        )


class Tickets(Credentials):
    """The tickets for the brokers of one host name.

    The KDC may take long to answer, or not do so at all. So a native worker asks it before a login, one at a time, and the
    login waits for that as long as it may. The library keeps the ticket in its cache, where the login finds it.

    :param credentials: whose they are
    :param host: in the brokers' principals
    """

    name = Gssapi.name
    waits = True

    def __init__(self, credentials: Gssapi, host: str) -> None:
        self._credentials = credentials
        self._host = host
        # These change by single steps.
        self._background_calls = BackgroundCalls("pykafka.Gssapi")
        self._fresh_until = 0.0
        self._failure: Exception | None = None

    def __repr__(self) -> str:
        return repr(self._credentials)

    @property
    def remedy(self) -> str:
        """The advice for a user if a broker refuses the ticket."""
        service = self._credentials.service
        return f"check the ticket (klist), the clocks, and that the broker's principal is {service}/{self._host}"

    def prepare(self, handler: Handler, timeout: float, wanted: Callable[[], bool] = always) -> bool:
        """Get the ticket by a worker; return whether it is there.

        :param handler: supplies the worker that asks the KDC
        :param timeout: how long to wait for it (s); 0 does not wait
        :param wanted: False ends the wait
        :raises TokenUnavailableError: there is none
        """
        native = handler.native
        if native.now() < self._fresh_until:
            return True
        failure, self._failure = self._failure, None
        if failure is not None and not timeout:
            raise _again(failure)
        call = self._background_calls.join(handler, self._get)
        if not timeout:
            return False
        if not call.wait(handler, timeout, wanted):
            raise TokenTimeoutError(
                f"no ticket to {self._credentials.service}/{self._host} came within {timeout:.3g} s: the KDC does not "
                f"answer; {_KDC}"
            )
        if call.error is not None:
            self._failure = None
            raise _again(call.error)
        return True

    def _get(self, handler: Handler, call: BackgroundCall) -> None:
        """Get the ticket into the library's cache; on a native thread, which logs nothing."""
        try:
            GssapiExchange(self._credentials, self._host).step(None)
        except Exception as error:  # noqa: BLE001 - the login raises it
            self._failure = call.error = error
        else:
            self._failure = None
            self._fresh_until = handler.now() + FRESH_S

    def begin(self, host: str) -> GssapiExchange:
        """Start a login; `host` is that of the tickets."""
        return GssapiExchange(self._credentials, self._host)


class GssapiExchange:
    """One login by Kerberos: first the tokens of the ticket, then the choice of a security layer.

    :param credentials: whose they are
    :param host: in the broker's principal
    """

    def __init__(self, credentials: Gssapi, host: str) -> None:
        self._credentials = credentials
        self._host = host
        self._context = credentials.context(host)
        self._errors = _library().exceptions.GSSError
        #: Whether the choice of a security layer was sent.
        self.complete = False
        self.ends_silently = True

    def step(self, challenge: bytes | None) -> bytes:
        """Return the next token.

        :raises TokenUnavailableError: there is no ticket for the broker
        :raises SaslAuthenticationFailed: the broker's token is not right
        """
        try:
            if challenge is None or not self._context.complete:
                return self._context.step(challenge) or b""
            return self._choose(challenge)
        except self._errors as error:
            if challenge is None:
                raise self._credentials.explain(error, self._host) from None
            raise SaslAuthenticationFailed(
                f"the broker has not proved by Kerberos that it is {self._credentials.service}/{self._host}: {_words(error)}; "
                "check the broker's keytab, and the clocks"
            ) from None

    def _choose(self, challenge: bytes) -> bytes:
        offer = self._context.unwrap(challenge).message
        if len(offer) != 4 or not offer[0] & NO_LAYER:
            raise SaslAuthenticationFailed(
                "the broker wants a security layer of Kerberos, which Kafka does not use; is it a Kafka broker?"
            )
        # The largest message of a layer (3 bytes) is 0 if there is none; no other identity is asked for.
        choice = self._context.wrap(struct.pack(">I", NO_LAYER << 24), False).message
        self.complete = True
        return bytes(choice)


def _words(error: Exception) -> str:
    """Return what the library says of a failure."""
    said = in_one_line(str(error), 2 * SAID_MAX)
    match = _MINOR.search(said) if getattr(error, "min_code", 0) else None
    return (said if match is None else match[1])[:SAID_MAX]


def _again(error: Exception) -> Exception:
    """Return an error of another worker, to be raised in this one."""
    return error.again() if isinstance(error, KafkaException) else error


def _library() -> Any:
    try:
        import gssapi  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ImportError(
            "login by Kerberos needs the package gssapi: pip install 'pykafka[gssapi]', with Kerberos' headers installed "
            f"(libkrb5-dev, krb5-devel) if it has to be built ({error})"
        ) from None
    return gssapi
