"""The tables of a declaration about how a pipeline is looked after: metrics, alerts, restarts."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pykafka.config.references import resolved
from pykafka.exceptions import ConfigurationError
from pykafka.spark.pipeline.tables import Table

_UNITS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
_INTERVAL = re.compile(r"(\d+) ?(milliseconds?|seconds?|minutes?|hours?|days?)")
_PORTS = range(65536)


@dataclass(frozen=True)
class Address:
    """The address where metrics are served.

    :param host: name or IP address, IPv6 without brackets
    :param port: 0 for one that is free
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Alert:
    """The webhook that hears of failures.

    :param url: receives a POST of JSON; may have secrets
    :param timeout_s: how long one try may take (s)
    :param attempts: number of tries
    """

    url: str
    timeout_s: float = 10.0
    attempts: int = 3

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.where}>"

    @property
    def where(self) -> str:
        """The host that is called, for texts: all else of the URL may be secret."""
        return urlsplit(self.url).hostname or "?"


@dataclass(frozen=True)
class Restart:
    """The policy by which a pipeline that failed starts again.

    :param attempts: how often in a row, without a micro-batch in between
    :param backoff_s: the bound of the pause after the first failure, twice as long after each further one (s)
    :param most_s: the bound of all pauses (s)
    """

    attempts: int = 0
    backoff_s: float = 10.0
    most_s: float = 300.0


@dataclass(frozen=True)
class Operation:
    """The tables of a declaration about how a pipeline is looked after.

    :param metrics: where it serves metrics; None for nowhere
    :param alert: where failures are sent; None: nowhere
    :param restart: when it starts again
    """

    metrics: Address | None = None
    alert: Alert | None = None
    restart: Restart = field(default_factory=Restart)


def read_operation(top: Table) -> Operation:
    """Return what the tables [metrics], [alert] and [restart] say."""
    return Operation(_metrics(top.table("metrics")), _alert(top.table("alert")), _restart(top.table("restart")))


def parse_address(text: str) -> Address:
    """Return the address in a text.

    :raises ValueError: it is none
    """
    host, colon, port = text.strip().rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not bare or not port.isascii() or not port.isdigit() or int(port) not in _PORTS:
        raise ValueError(f"must be host:port, like 127.0.0.1:9400, not {text!r}")
    if ":" in bare and bare == host:
        raise ValueError(f"must have an IPv6 address in brackets, like [::1]:9400, not {text!r}")
    return Address(bare, int(port))


def seconds(text: str) -> float | None:
    """Return an interval like "10 seconds" (s); None if it is none."""
    found = _INTERVAL.fullmatch(text.strip())
    return None if found is None else int(found[1]) * _UNITS[found[2].rstrip("s")]


def _metrics(table: Table | None) -> Address | None:
    if table is None:
        return None
    text = table.text("address", required=True)
    table.finish()
    try:
        return parse_address(text) if text else None
    except ValueError as error:
        table.problem("address", str(error))
        return None


def _alert(table: Table | None) -> Alert | None:
    if table is None:
        return None
    url = table.text("url", required=True)
    timeout_s, attempts = _seconds(table, "timeout", 10.0), _count(table, "attempts", 3, least=1)
    table.finish()
    try:
        url = resolved(url, table.place("url"), os.environ).strip()
    except ConfigurationError as error:
        table.problem("url", str(error))
        return None
    if url and not _is_url(url):  # without the URL: it may be the secret
        table.problem("url", "must be a URL that begins with https:// or http://, with a host and no user")
        return None
    return Alert(url, timeout_s, attempts) if url else None


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    plain = text.isascii() and text.isprintable() and " " not in text
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None


def _restart(table: Table | None) -> Restart:
    if table is None:
        return Restart()
    attempts = _count(table, "attempts", 5, least=0)
    backoff_s = _seconds(table, "backoff", 10.0)
    most_s = _seconds(table, "max_backoff", max(300.0, backoff_s))
    if most_s < backoff_s:
        table.problem("max_backoff", "is shorter than backoff")
    table.finish()
    return Restart(attempts, backoff_s, most_s)


def _count(table: Table, key: str, default: int, least: int) -> int:
    value = table.value(key, (int,))
    if value is not None and value < least:
        table.problem(key, f"must be {least} or more, not {value}")
        return default
    return default if value is None else int(value)


def _seconds(table: Table, key: str, default: float) -> float:
    text = table.text(key)
    if not text:
        return default
    found = seconds(text)
    if found is None or found <= 0:
        table.problem(key, f"must be an interval like '10 seconds', not {text!r}")
        return default
    return found
