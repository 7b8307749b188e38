"""Texts of users and services: addresses, configuration files, certificates, and answers by HTTP."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pykafka.config import files
from pykafka.config.dialects import pairs_of
from pykafka.config.properties import properties
from pykafka.metrics.flight_file import FORMAT, VERSION
from pykafka.metrics.flight_timeline import FlightTimeline
from pykafka.network.addresses import parse_hosts, parse_source
from pykafka.network.proxies import valid_proxy
from pykafka.registry import client
from pykafka.registry.client import Registry, check_urls
from pykafka.security import http
from pykafka.security.certificate_stores import validity
from pykafka.security.http import Answer
from pykafka.security.java_sasl import parse_jaas
from pykafka.security.oidc import OidcClientCredentials
from pykafka.testing.control_port import ControlPort, RefusalError
from pykafka.testing.remote import controls
from tests.fuzz.judge import Target
from tests.fuzz.targets.frames import CLOCK, Pieces
from tests.fuzz.targets.traps import json_traps

_ENDPOINT = OidcClientCredentials("https://idp.example.org/token", "id", "secret")


def addresses(data: bytes) -> object:
    """Read a list of hosts, an address to connect from, a proxy, or the addresses of a registry."""
    if not data:
        return None
    reads: list[Callable[[str], object]] = [parse_hosts, parse_source, _proxy, check_urls]
    return reads[data[0] % len(reads)](data[1:].decode(errors="surrogateescape"))


def _proxy(text: str) -> object:
    found = valid_proxy(text)
    return found and (str(found), found.user)


def configuration(data: bytes) -> object:
    """Read a configuration file; the first byte has its form."""
    if not data:
        return None
    suffix = (".toml", ".json", ".ini", ".properties", ".conf", "", ".config")[data[0] % 7]
    if not suffix:
        return properties(data[1:].decode(errors="replace"))
    found = files.read_file(_file(data[1:], suffix))
    return {name: repr(value) for name, value in found.items()}


def _file(content: bytes, suffix: str) -> Any:
    """Return what stands for the path of a file with this content."""

    class File(SimpleNamespace):
        def __str__(self) -> str:
            return f"client{suffix}"

    return File(suffix=suffix, name=f"client{suffix}", read_text=content.decode)


def _dialects(data: bytes) -> object:
    """Read a file of keys and values of Java's, librdkafka's or kcat's clients."""
    return pairs_of(Path("client.config"), data.decode(errors="replace"))


def jaas(data: bytes) -> object:
    """Read a JAAS text."""
    return [(one.name, one.flag, sorted(one.options.items())) for one in parse_jaas(data.decode(errors="replace"))]


def certificate(data: bytes) -> object:
    """Read how long a certificate is valid, in PEM or, behind a first byte of 0, in DER."""
    if data[:1] == b"\0":
        body = base64.b64encode(data[1:]).decode()
        return validity(f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
    return validity(data.decode(errors="replace"))


def registry(data: bytes) -> object:
    """Read the answers of a schema registry; the first byte has the status and the kind of request."""
    if not data:
        return None
    answer = Answer((200, 404, 409, 503, 302)[data[0] & 7] if data[0] & 7 < 5 else 200, data[1:])
    asked, service = "/subjects" if data[0] & 0x80 else "/schemas/ids/1", Registry("https://r.example.org")
    with mock.patch.object(http, "exchange", return_value=answer):
        found = service._exchange("https://r.example.org", "GET", asked, None, 1.0)
    if isinstance(found, list):
        return found
    return service._keep(found) if data[0] & 0x40 else client._schema(found, service)


def identity(data: bytes) -> object:
    """Read the answer of a token endpoint."""
    found = _ENDPOINT._read(data)
    return found.value, found.lifetime_s


def flights(data: bytes) -> object:
    """Read the file of a flight recorder."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as file:
        file.write(b'{"format": "%s", "version": %d}\n' % (FORMAT.encode(), VERSION) + data)
        file.flush()
        timeline = FlightTimeline(file.name)
    return [(moment, moment.time) for moment in timeline.moments()], timeline.bad_lines


def control(data: bytes) -> object:
    """Read a request to the control port of the fake cluster, up to the arguments of the control."""
    port: Any = object.__new__(ControlPort)
    failures: list[BaseException] = []

    def report(_: str, error: BaseException) -> None:
        failures.append(error)

    def call(chosen: Any, given: dict[str, Any]) -> object:
        chosen.check(given)
        return sorted(given)

    port._handler = SimpleNamespace(now=CLOCK.now, report=report)
    port._remote = SimpleNamespace(describe=lambda: sorted(controls()), call=call)
    try:
        return port._answer(*port._read(Pieces(data, 1000)))
    except RefusalError as error:
        if failures:
            raise failures[0] from None
        return error.status, str(error)
    except ConnectionResetError:
        return "closed"


def _addresses() -> Iterator[bytes]:
    yield b"\0a:9092, [::1]:9093,b"
    yield b"\0PLAINTEXT://a:1,::1"
    yield b"\x0010.0.0.1:0"
    yield b"\2socks5h://user:password@host:1080"
    yield b"\2http://[::1]:3128"
    yield b"\3https://registry.example.org:8081/, http://b"


def _configurations() -> Iterator[bytes]:
    yield b'\0[pykafka]\nlinger.ms = 5\n"bootstrap.servers" = "a:1"\n'
    yield b'\1{"pykafka": {"linger": {"ms": 5}}, "x": [1, null]}'
    yield from (b"\1" + text for text in json_traps({"linger.ms": 5}))
    yield b"\0a = " + b"1" * 4090
    yield b"\0a = " + b"[" * 2000
    yield b"\0" + b"a." * 1100 + b"a = 1"
    yield b"\2[default]\nbootstrap.servers = a:1\n[x]\ny = 1\n"
    for form in (3, 4, 5, 6):
        yield bytes([form]) + b"# comment\nbootstrap.servers=a:1,b:2\nsasl.password = a\\u0041\\\n  b\nkey:value\n"


def _certificates() -> Iterator[bytes]:
    times = b"\x30\x1e\x17\x0d240101000000Z\x17\x0d340101000000Z"
    inner = b"\xa0\x03\x02\x01\x02\x02\x01\x07\x30\x03\x06\x01\x2a\x30\x00" + times
    body = b"\x30" + bytes([len(inner)]) + inner
    yield b"\0\x30" + bytes([len(body)]) + body
    yield b"-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n"


def _registries() -> Iterator[bytes]:
    known = {"subject": "a", "version": 1, "id": 7, "guid": None, "schema": '"string"', "schemaType": "AVRO"}
    yield b"\0" + json.dumps(known).encode()
    references = [{"name": "n", "subject": "s", "version": 1}]
    yield b"\0" + json.dumps({**known, "references": references, "schemaType": "PROTOBUF"}).encode()
    yield b"\x82" + b'["a", "b"]'
    reference = {"name": "n", "subject": "s", "version": 1}
    yield from (b"\x45" + text for text in json_traps(known, {**known, "references": [reference]}))
    yield from (b"\1" + text for text in json_traps({"error_code": 40403, "message": "Schema not found"}))
    yield b"\1" + json.dumps({"error_code": 40403, "message": "Schema not found"}).encode()


def _requests() -> Iterator[bytes]:
    yield b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    body = b'{"api": "Produce", "error": "NotLeaderForPartition", "times": 2}'
    yield b"POST /fail HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    for text in json_traps({"api": "Produce", "error": 3, "times": 2}):
        yield b"POST /fail HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    yield b"GET /records?topic=a&partition=0 HTTP/1.1\r\n\r\n"
    yield b"POST /stop?broker=1 HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n"


def _flights() -> Iterator[bytes]:
    request = {"kind": "request", "at": 1.0, "seconds": 0.1, "api": "Fetch", "node": 1, "channel": "c"}
    yield json.dumps({**request, "sent": 10, "received": 20}).encode()
    yield from json_traps(
        {**request, "sent": 10, "received": 20}, {"kind": "event", "subject": "s", "at": 2, "detail": "d"}
    )
    yield b'{"kind": "event", "subject": "s", "at": 2, "detail": "d"}\n[1]\n{'


TARGETS = [
    Target("addresses", addresses, _addresses, (ValueError,)),
    Target("configuration", configuration, _configurations),
    Target("dialects", _dialects, lambda: [one[1:] for one in _configurations()]),
    Target(
        "jaas",
        jaas,
        lambda: [b'o.a.k.PlainLoginModule required username="a" password="b\\"\\101"; // c\n', b"A sufficient b=c;"],
        (ValueError,),
    ),
    Target("certificates", certificate, _certificates),
    Target("registry", registry, _registries),
    Target("token-endpoint", identity, lambda: [b"{}", *json_traps({"access_token": "abc", "expires_in": 3600})]),
    Target("flights", flights, _flights),
    Target("control-port", control, _requests),
]
