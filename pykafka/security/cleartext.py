"""The warning about credentials that are sent without TLS."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.security.mechanism import Mechanism
    from pykafka.security.ssl_config import SslConfigLike

log = logging.getLogger(__name__)

#: Mechanisms whose requests contain a secret that anyone who reads it can use. SCRAM and Kerberos prove that they have one.
REVEALING = {"PLAIN": "password", "OAUTHBEARER": "token"}


def warn_of_cleartext(sasl: Mechanism | None, ssl_config: SslConfigLike | None, where: str) -> None:
    """Log one warning if a login sends a secret without TLS, to the brokers or to the endpoint of its tokens.

    Loopback addresses are no exception: a tunnel or a port that is forwarded may begin there.

    :param where: the addresses of the brokers
    """
    if sasl is None:
        return
    secret = REVEALING.get(sasl.name)
    exposed = []
    if secret is not None and ssl_config is None:
        exposed.append(f"the login by {sasl.name} sends its {secret} to the brokers ({where}) without TLS")
    endpoint = getattr(sasl, "cleartext_endpoint", "")
    if endpoint:
        exposed.append(f"the client's secret and its tokens go to and from {endpoint} without TLS")
    if exposed:
        log.warning(
            "%s: anyone on the way can read and use them; use TLS (tls= and a SASL_SSL listener, https://), or give "
            "allow_cleartext_credentials=True if the network is trusted",
            "; ".join(exposed),
        )


def warn_of_cleartext_registry(urls: list[str], login: str) -> None:
    """Log one warning if a login at a schema registry is sent without TLS.

    :param urls: addresses of the registry
    :param login: "password" or "token"; "" for no login
    """
    exposed = [url for url in urls if url.lower().startswith("http://")]
    if exposed and login:
        log.warning(
            "the %s for the schema registry at %s is sent without TLS: anyone on the way can read and use it; use https://, or "
            "give allow_cleartext_credentials=True if the network is trusted",
            login,
            ", ".join(exposed),
        )
