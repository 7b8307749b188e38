"""Reading the addresses that users write: "host:port, [::1]:9093", as str or bytes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pykafka.utils import get_string, is_number

if TYPE_CHECKING:
    from pykafka.handlers import Handler

log = logging.getLogger(__name__)

DEFAULT_PORT = 9092


def parse_address(text: str, default_port: int = DEFAULT_PORT) -> tuple[str, int]:
    """Return host and port of one address; an IPv6 address with a port stands in brackets.

    :raises ValueError: it is no address
    """
    text = text.strip()
    if "://" in text:  # the form of Kafka's listeners: PLAINTEXT://host:port
        text = text.split("://", 1)[1]
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is no address: write an IPv6 address with a port as [::1]:9092")
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not host:
        raise ValueError(f"{text!r} is no address: the host is missing; write host:port")
    if "\0" in host:
        raise ValueError(f"{text!r} is no address: there is a NUL in the host")
    if not port:
        return host, default_port
    if not is_number(port) or not 0 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is no address: the port must be a number from 0 to 65535")
    return host, int(port)


def joined_hosts(hosts: Any) -> Any:
    """Return a list of addresses as one text, with commas, and all else as it is.

    :raises TypeError: one of the list is no text
    """
    if not isinstance(hosts, (list, tuple)):
        return hosts
    if not all(isinstance(host, str) for host in hosts):
        raise TypeError(f"hosts must be 'host:port,host:port', or a list of 'host:port', not {hosts!r}")
    return ",".join(hosts)


def parse_hosts(hosts: str | bytes) -> list[tuple[str, int]]:
    """Return (host, port) of each address in a comma-separated list.

    :raises ValueError: one of them is no address, or there is none
    """
    found = [parse_address(part) for part in get_string(hosts, "hosts").split(",") if part.strip()]
    if not found:
        raise ValueError("hosts names no broker; give it as 'host:port,host:port'")
    return found


def parse_source(source_address: str | bytes) -> tuple[str, int]:
    """Return host and port to connect from; ("", 0) for an empty source address.

    :raises ValueError: it is no address
    """
    text = get_string(source_address, "source_address")
    return parse_address(text, 0) if text else ("", 0)


def canonical_addresses(
    hosts: Iterable[tuple[str, int]], handler: Handler, timeout: float, wanted: Callable[[], bool]
) -> list[tuple[str, int]]:
    """Return (canonical name, port) of each address that names stand for; a name that cannot be looked up stays as it is.

    :param handler: looks names up
    :param timeout: for each look-up (s)
    :param wanted: returns whether the answer is still wanted
    """
    found: list[tuple[str, int]] = []
    for host, port in hosts:
        try:
            addresses = handler.resolve(host, port, timeout=timeout, wanted=wanted)
            found += [(handler.name_of(address, timeout, wanted), port) for address in addresses]
        except (OSError, ValueError) as error:
            log.warning("%s has no canonical name now (%s); it is used as it stands", host, error)
            found.append((host, port))
    return list(dict.fromkeys(found))
