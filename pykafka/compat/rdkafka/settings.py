"""The settings of librdkafka that producer and consumer share, its errors as ours, and its end."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException, RdKafkaException, error_for
from pykafka.protocol import wire
from pykafka.security import DelegationToken, Gssapi, OAuthBearer, Plain, Scram, SslConfig
from pykafka.security.certificate_stores import MARK, is_store, text_of

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.options import ConnectionSettings

log = logging.getLogger(__name__)

#: The most that librdkafka takes for pauses (ms), and for numbers.
HOUR_MS = 3_600_000
INT_MAX = 2**31 - 1
#: How long librdkafka may take to end (s).
END_S = 10.0


def confluent_kafka() -> Any:
    """Return the package of librdkafka for Python.

    :raises ImportError: it is not installed
    """
    try:
        import confluent_kafka as found
    except ImportError as error:
        raise ImportError(
            "use_rdkafka=True needs librdkafka, which confluent-kafka brings: pip install 'confluent-kafka>=2.5'"
        ) from error
    return found


def common_settings(cluster: BaseCluster) -> dict[str, Any]:
    """Return librdkafka's settings for the brokers of a cluster: addresses, their age, TLS, credentials.

    :raises NoBrokersAvailableError: no broker answered
    :raises ValueError: librdkafka has no setting for this kind of TLS, or for the proxy
    """
    own = connection_settings(cluster.settings)
    brokers = list(cluster.brokers.values())
    settings: dict[str, Any] = {
        # The first addresses too: names that lead on when all brokers have moved.
        "bootstrap.servers": ",".join(
            dict.fromkeys([*(broker.address for broker in brokers), *cluster.first_addresses])
        ),
        "client.id": "pykafka",
        "socket.timeout.ms": min(max(cluster.socket_timeout_ms, 10), 300_000),
        # librdkafka logs on threads of its own, and to stderr; its errors say what matters.
        "log_level": 0,
        "error_cb": _ignore,
    }
    # Ask any of them: some may be down at present.
    addresses = [(broker.host, broker.port) for broker in brokers]
    ranges = cluster.ask_any(addresses, lambda broker: broker.api_ranges())
    if wire.ApiVersionsRequest.api_key not in ranges:
        # librdkafka takes brokers without ApiVersions for 0.10, and gets no answers.
        is_0_9 = wire.ListGroupsRequest.api_key in ranges
        settings |= {"api.version.request": False, "broker.version.fallback": "0.9.0.1" if is_0_9 else "0.8.2.2"}
    return settings | own | tls_settings(cluster.ssl_config) | sasl_settings(cluster)


def connection_settings(settings: ConnectionSettings) -> dict[str, Any]:
    """Return the settings of librdkafka for connections."""
    if settings.proxy is not None:
        raise ValueError(
            f"librdkafka connects through no proxy, and this client has proxy={settings.proxy}; leave use_rdkafka=True out"
        )
    first_ms = min(settings.reconnect_backoff_ms, HOUR_MS)
    return {
        "reconnect.backoff.ms": first_ms,
        "reconnect.backoff.max.ms": max(min(settings.reconnect_backoff_max_ms, HOUR_MS), first_ms),
        "connections.max.idle.ms": min(settings.connections_max_idle_ms, INT_MAX),
        "socket.connection.setup.timeout.ms": min(max(settings.socket_connection_setup_timeout_ms, 1000), INT_MAX),
        "client.dns.lookup": settings.client_dns_lookup,
    }


def _ignore(_: object) -> None:
    """Ignore reports of brokers that come and go: librdkafka goes on by itself, and messages have errors of their own."""


def tls_settings(config: Any) -> dict[str, Any]:
    """Return the settings of librdkafka for TLS."""
    if config is None:
        return {}
    if not isinstance(config, SslConfig):
        raise ValueError(
            f"librdkafka cannot use a {type(config).__name__}: give KafkaClient a pykafka.SslConfig with paths of files"
        )
    if config.versions is not None:
        raise ValueError(
            f"librdkafka has no setting for versions of TLS, and SslConfig has versions={config.versions!r}; leave out "
            "versions=, or make it without use_rdkafka=True"
        )
    settings: dict[str, Any] = {
        "security.protocol": "ssl",
        "ssl.cipher.suites": config.ciphers,
        "ssl.endpoint.identification.algorithm": "https" if config.check_hostname else "none",
        "enable.ssl.certificate.verification": None if config.verify else False,
        "ssl.crl.location": config.crlfile,
    }
    authorities, identity = config.authorities(), config.identity()
    settings["ssl.ca.location" if authorities is None else "ssl.ca.pem"] = authorities or config.cafile
    if identity is not None:
        if identity.certificates.count(MARK) > 1:
            # As text, librdkafka takes one certificate; those between it and the authority are taken from a file.
            settings["ssl.certificate.location"] = config.certfile
        else:
            settings["ssl.certificate.pem"] = identity.certificates
        password = identity.password() if callable(identity.password) else identity.password
        settings["ssl.key.pem"] = identity.key
        settings["ssl.key.password"] = password.decode() if isinstance(password, bytes) else password or None
    for name in ("ssl.crl.location", "ssl.certificate.location"):
        if settings.get(name) is not None and (text_of(settings[name]) is not None or is_store(settings[name])):
            raise ValueError(f"librdkafka takes {name} from a PEM file alone: give SslConfig the path of one")
    return {name: value for name, value in settings.items() if value is not None}


def sasl_settings(cluster: BaseCluster) -> dict[str, Any]:
    """Return the settings of librdkafka for SASL."""
    sasl = cluster.sasl
    if sasl is None:
        return {}
    settings: dict[str, Any] = {
        "security.protocol": "sasl_plaintext" if cluster.ssl_config is None else "sasl_ssl",
        "sasl.mechanism": sasl.name,
    }
    if isinstance(sasl, DelegationToken):
        raise ValueError("librdkafka does not log in with delegation tokens: leave out use_rdkafka=True")
    if isinstance(sasl, (Plain, Scram)):
        return settings | {"sasl.username": sasl.username, "sasl.password": sasl.password}
    if isinstance(sasl, OAuthBearer):
        return settings | {"oauth_cb": partial(_token_of, sasl, cluster.handler)}
    if isinstance(sasl, Gssapi):
        if sasl.host is not None:
            raise ValueError(
                "librdkafka has no setting for the host in the brokers' principals: leave out Gssapi(host=...)"
            )
        settings |= {
            "sasl.kerberos.service.name": sasl.service,
            "sasl.kerberos.principal": sasl.principal,
            "sasl.kerberos.keytab": sasl.keytab,
            # Tickets are renewed by whoever made them; without a keytab, librdkafka's own command would fail.
            "sasl.kerberos.kinit.cmd": None if sasl.keytab is not None else "true",
        }
        return {name: value for name, value in settings.items() if value is not None}
    raise ValueError(f"librdkafka has no setting for credentials of the kind {type(sasl).__name__}")


def _token_of(sasl: OAuthBearer, handler: Handler, _: str) -> tuple[str, float, str, dict[str, str]]:
    """Return a token as librdkafka wants it: the token, its end (s since 1970), the user's name, extensions."""
    token, ends_at, extensions = sasl.get(handler)
    return token, ends_at, "", extensions


def keep_for_ever(client: Any) -> None:
    """Keep a client of librdkafka from before a fork for ever.

    Its threads are the parent's: if the child freed it, librdkafka would wait for them without end.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))


def end(handler: Handler, call: Callable[[], object], what: str) -> None:
    """End a client of librdkafka, which waits for its threads; wait for that, but not for ever.

    :param handler: of the caller
    :param call: ends the client; an OS thread of its own calls it, and it may have the only reference to the client
    :param what: the client's name, for the log
    """
    try:
        worker = handler.native.spawn(call, name="pykafka.RdKafka.end")
    except RuntimeError:  # the interpreter is ending, and starts no more threads
        call()
        return
    if not handler.offload(worker.join, END_S):
        log.error(
            "librdkafka did not end %s within %g s, and its threads are left behind. In a forked child, whatever the parent's "
            "librdkafka had locked at that moment (looking a host up, or in OpenSSL) stays locked for ever: make what uses "
            "librdkafka after the fork",
            what,
            END_S,
        )


def error_from(error: Any, **context: Any) -> KafkaException:
    """Return our error for an error of librdkafka's.

    :param error: a `confluent_kafka.KafkaError`
    :param context: as for KafkaException
    """
    code = error.code()
    if code > 0:
        return error_for(code, **context)
    return RdKafkaException(
        f"librdkafka says {error.name()}: {error.str()}; check that the brokers are up and the settings fit", **context
    )
