"""Clusters that live as long as their process: Spark uses a Python worker for task after task.

Each is a `Cluster` and not a `KafkaClient`, which would import consumers and producers: a worker's first task, and a
query's start, wait for every import.
"""

from __future__ import annotations

import gc
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from pykafka.exceptions import (
    IllegalSaslState,
    NoBrokersAvailableError,
    SaslAuthenticationFailed,
    SaslRequiredError,
    TlsError,
    TokenUnavailableError,
    UnsupportedSaslMechanism,
)
from pykafka.handlers import ThreadingHandler
from pykafka.security import SslConfig
from pykafka.security.java_tls import TlsOptions
from pykafka.spark.data_loss import warn
from pykafka.spark.errors import OptionError
from pykafka.spark.options import ClientOptions
from pykafka.spark.references import here

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster

# A worker is forked from a daemon that never connects. If other code forks later, the child must not share connections.
_clusters: dict[tuple[int, ClientOptions], BaseCluster] = {}
# What references brought when a process last resolved them.
_opened: dict[tuple[int, ClientOptions], ClientOptions] = {}
_frozen: set[int] = set()
handler = ThreadingHandler()
_lock = handler.Lock()


def cluster_for(options: ClientOptions) -> BaseCluster:
    """Return this process's connection to the cluster of these options; connect if there is none.

    :raises NoBrokersAvailableError: no broker answered; `.attempts` has every attempt
    :raises OptionError: a certificate or key cannot be read here, or a reference leads nowhere
    """
    with _lock:
        options = _with_values(options)
        key = (os.getpid(), options)
        cluster = _clusters.get(key)
        if cluster is None:
            cluster = _clusters[key] = _connected(options)
    return cluster


def _with_values(options: ClientOptions) -> ClientOptions:
    """Return the options with what their references bring now; while one leads nowhere, with what they brought last."""
    key = (os.getpid(), options)
    known = _opened.get(key)
    try:
        found = options.opened()
    except OptionError as error:
        if known is None:
            raise
        warn(f"the values that were found last are used: {error}")
        return known
    if options.sealed is not None:
        _opened[key] = found
        if known not in (None, found):  # a secret was renewed: the next connections log in with it
            outdated = _clusters.pop((key[0], known), None)
            if outdated is not None:
                outdated.close()
    return found


def _connected(options: ClientOptions) -> BaseCluster:
    # On use: the process that only pickles a stream's reader does not connect, and the query's start waits for its imports.
    from pykafka.metadata.cluster import BaseCluster

    # The errors have all that those before them say: `from None` spares the users of a stream the stack of those, which
    # Spark would print above the sentence.
    try:
        return BaseCluster(
            options.hosts,
            handler,
            socket_timeout_ms=options.timeout_ms,
            exclude_internal_topics=False,
            client_id=options.client_id,
            settings=replace(
                options.connections,
                ssl_config=None if options.tls is None else _ssl_config(options.tls),
                sasl=options.sasl,
            ),
            metadata=options.metadata,
        )
    except (SaslAuthenticationFailed, UnsupportedSaslMechanism, IllegalSaslState, TokenUnavailableError) as error:
        copy = error.again()
        said = " ".join(map(str, error.args)) or error.text
        copy.args = (
            f"stage SASL, from {here()}: {said}. As options: 'kafka.sasl.mechanism', 'kafka.sasl.jaas.config' and "
            "'kafka.sasl.oauthbearer.*'; the listener is that of 'kafka.bootstrap.servers'",
        )
        raise copy from None
    except SaslRequiredError as error:
        raise OptionError(
            f"stage SASL, from {here()}: {error}. As options: sasl= is 'kafka.security.protocol' = SASL_SSL or SASL_PLAINTEXT, "
            "'kafka.sasl.mechanism' and 'kafka.sasl.jaas.config'"
        ) from None
    except NoBrokersAvailableError as error:
        tls = (
            "an SslConfig is 'kafka.security.protocol' = SSL"
            if options.tls is None
            else "ssl_config is 'kafka.security.protocol' = SSL, its cafile is 'kafka.ssl.truststore.*', its certfile and "
            "keyfile are 'kafka.ssl.keystore.*'"
        )
        raise NoBrokersAvailableError(
            f"from {here()}: {error}. As options: hosts= is 'kafka.bootstrap.servers', {tls}", ledger=error.ledger
        ) from None


def forget(options: ClientOptions) -> None:
    """Close this process's connections for these options: after a failure, the next task reconnects."""
    with _lock:
        options = _opened.get((os.getpid(), options), options)
        cluster = _clusters.pop((os.getpid(), options), None)
    if cluster is not None:
        cluster.close()


def freeze_objects() -> None:
    """Exclude imported objects from garbage collections, once: Spark's worker runs one after every task.

    With the objects of Spark and Arrow a collection takes some 15 ms, more than a small task.
    """
    pid = os.getpid()
    if pid not in _frozen:
        _frozen.add(pid)
        gc.collect()
        gc.freeze()


def close_all() -> None:
    """Close all connections of this process."""
    with _lock:
        mine = [key for key in _clusters if key[0] == os.getpid()]
        clusters = [_clusters.pop(key) for key in mine]
    for cluster in clusters:
        cluster.close()


def _ssl_config(tls: TlsOptions) -> SslConfig:
    config = tls.ssl_config()
    try:
        _ = config.context
    except TlsError as error:
        raise OptionError(
            f"the options 'kafka.ssl.truststore.*', 'kafka.ssl.keystore.*' and 'kafka.ssl.key.password' cannot be "
            f"used on this machine: {error}. Files must be there on the driver and on every executor"
        ) from None
    return config
