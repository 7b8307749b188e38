"""`Gssapi`: logins by Kerberos (RFC 4752), through the package `gssapi`."""

from __future__ import annotations

import struct
from typing import Any

from pykafka.exceptions import SaslAuthenticationFailed, TokenUnavailableError
from pykafka.security.mechanism import Credentials, credential

#: The bit of "no security layer" in the broker's offer and our choice: TLS protects connections.
NO_LAYER = 1


class Gssapi(Credentials):
    """Log in by Kerberos.

    The ticket comes from the credential cache (`kinit`), or by `keytab`. It needs the package `gssapi` (extra `gssapi`) with
    Kerberos' libraries.

    :param service: the name of the brokers' service: the first part of their principals
    :param principal: whom to log in as, such as "alice@EXAMPLE.ORG"; None for the cache's or keytab's own
    :param keytab: path of a file with the principal's keys; None uses tickets that are there
    :param host: the host in the brokers' principals; None for the name that the client connects to
    :raises ImportError: the package is missing
    :raises TypeError, ValueError: a parameter is no text, or empty
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
        _library()
        self.service = service
        self.principal = principal
        self.keytab = keytab
        self.host = host

    def __repr__(self) -> str:
        return f"<{type(self).__name__} service={self.service!r} principal={self.principal!r}>"

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self.name, self.service, self.principal))

    @property
    def remedy(self) -> str:
        """The advice for a user where a broker refuses the ticket."""
        return f"check the ticket (klist), the clocks, and that the broker's principal is {self.service}/HOST"

    def begin(self, host: str) -> GssapiExchange:
        """Start a login.

        :param host: the broker's name; part of its principal
        """
        return GssapiExchange(self, self.host or host.rstrip("."))

    def context(self, host: str) -> Any:
        """Return a security context of the library for a broker.

        :param host: in the broker's principal
        :raises TokenUnavailableError: there is no ticket
        """
        gssapi = _library()
        try:
            target = gssapi.Name(f"{self.service}@{host}", gssapi.NameType.hostbased_service)
            name = None if self.principal is None else gssapi.Name(self.principal, gssapi.NameType.user)
            store = None if self.keytab is None else {"client_keytab": self.keytab}
            credentials = None
            if name is not None or store is not None:
                options = {} if store is None else {"store": store}
                credentials = gssapi.Credentials(name=name, usage="initiate", **options)
            return gssapi.SecurityContext(name=target, creds=credentials, usage="initiate")
        except gssapi.exceptions.GSSError as error:
            raise self.explain(error) from None

    def explain(self, error: Exception) -> TokenUnavailableError:
        """Return the error of a call of the library that failed."""
        said = " ".join(str(error).split())
        return TokenUnavailableError(f"Kerberos gives no ticket for {self!r}: {said}; {self.remedy}")


class GssapiExchange:
    """One login by Kerberos: first the tokens of the ticket, then the choice of a security layer.

    :param credentials: whose they are
    :param host: in the broker's principal
    """

    def __init__(self, credentials: Gssapi, host: str) -> None:
        self._credentials = credentials
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
            if not self._context.complete:
                return self._context.step(challenge) or b""
            return self._choose(challenge or b"")
        except self._errors as error:
            raise self._credentials.explain(error) from None

    def _choose(self, challenge: bytes) -> bytes:
        offer = self._context.unwrap(challenge).message
        if len(offer) != 4 or not offer[0] & NO_LAYER:
            raise SaslAuthenticationFailed(
                "the broker wants a security layer of Kerberos, which Kafka does not use; is it a Kafka broker?"
            )
        # The largest message of a layer (3 bytes) is 0 where there is none; no other identity is asked for.
        choice = self._context.wrap(struct.pack(">I", NO_LAYER << 24), False).message
        self.complete = True
        return bytes(choice)


def _library() -> Any:
    try:
        import gssapi  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ImportError(
            "login by Kerberos needs the package gssapi: pip install 'pykafka[gssapi]', with Kerberos' headers installed "
            f"(libkrb5-dev, krb5-devel) where it has to be built ({error})"
        ) from None
    return gssapi
