"""`AzureManagedIdentity`: tokens for the identity that Azure has given to this machine, by its Instance Metadata Service."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

from pykafka.security.mechanism import credential
from pykafka.security.oidc import TokenEndpoint

if TYPE_CHECKING:
    from urllib.request import Request

#: The address of the service on each machine of Azure: link-local, so no request leaves the machine's host.
AZURE_ENDPOINT = "http://169.254.169.254/metadata/identity/oauth2/token"
API_VERSION = "2018-02-01"
#: The service answers so while it is updated: https://learn.microsoft.com (managed identities, "Retry guidance").
_UPDATING = frozenset({404, 410})


class AzureManagedIdentity(TokenEndpoint):
    """A function that gets tokens for a managed identity of Azure, for `OAuthBearer`; no secret is needed.

    It works on machines of Azure and in its Kubernetes, which have the metadata service. Its requests go through no proxy.

    :param resource: whom the tokens are for, such as "https://NAMESPACE.servicebus.windows.net"
    :param client_id: of a user-assigned identity, if the machine has several; None for the machine's only one
    :param endpoint_url: of the metadata service; it may have parameters of the request
    :param parameters: further parameters of the request, such as {"api-version": "2025-04-07"}
    :param timeout_s: how long one request may take (s)
    :raises ValueError: `resource` is empty, or the URL is none
    """

    _checks = "that this machine has an identity, resource and client_id"
    _passing = TokenEndpoint._passing | _UPDATING
    _direct = True

    def __init__(
        self,
        resource: str,
        client_id: str | None = None,
        *,
        endpoint_url: str = AZURE_ENDPOINT,
        parameters: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        super().__init__(endpoint_url, None, None, parameters, timeout_s)
        parts = urlsplit(endpoint_url)
        if _is_on_machine(
            parts.hostname or ""
        ):  # the answer, with the token, does not leave it; the request has no secret
            self.cleartext_endpoint = ""
        self._url = self._where
        self._query = {
            "api-version": API_VERSION,
            **dict(parse_qsl(parts.query)),
            "resource": credential(resource, "resource"),
        }
        if client_id is not None:
            self._query["client_id"] = credential(client_id, "client_id")

    def __repr__(self) -> str:
        shown = "".join(f" {name}={self._query[name]!r}" for name in ("resource", "client_id") if name in self._query)
        return f"<{type(self).__name__} {self._where}{shown}>"

    __hash__ = TokenEndpoint.__hash__

    def _request(self) -> tuple[Request, tuple[str, ...]]:
        from urllib.request import Request

        query = urlencode({**self._query, **self._parameters})
        # The service refuses requests without this header, as browsers and redirects cannot set it.
        return Request(f"{self._url}?{query}", headers={"Metadata": "true"}), ()


def _is_on_machine(host: str) -> bool:
    """Return whether requests to a host stay on this machine: its address is of the loopback, or link-local as Azure's."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_link_local


def azure_identity(config: str, endpoint_url: str | None) -> AzureManagedIdentity:
    """Return the identity that librdkafka's `sasl.oauthbearer.config` names.

    :param config: that option's value, `query=api-version=...&resource=...&client_id=...`
    :param endpoint_url: of the metadata service, whose query counts as well; None for Azure's
    :raises ValueError: neither names a resource
    """
    url = endpoint_url or AZURE_ENDPOINT
    name, _, query = config.strip().partition("=")
    given = dict(parse_qsl(urlsplit(url).query))
    if name == "query":
        given |= parse_qsl(query)
    if not given.get("resource"):
        raise ValueError(
            "azure_imds needs sasl.oauthbearer.config=query=resource=..., with whom the tokens are for, such as "
            "query=api-version=2018-02-01&resource=https://NAMESPACE.servicebus.windows.net; or such a query in "
            "sasl.oauthbearer.token.endpoint.url"
        )
    resource, client_id = given.pop("resource"), given.pop("client_id", None)
    return AzureManagedIdentity(resource, client_id, endpoint_url=url, parameters=given)
