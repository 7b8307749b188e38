"""Diagnosis of connectivity to a cluster, step by step and address by address, as data; the release of a broker."""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.broker import CLIENT_ID
from pykafka.cli.exit_status import in_options
from pykafka.exceptions import (
    CorrelationIdError,
    KafkaException,
    SaslRequiredError,
    SocketDisconnectedError,
    TlsError,
)
from pykafka.handlers import ThreadingHandler
from pykafka.handlers.base import Address
from pykafka.network.api_versions import negotiate
from pykafka.network.connection import BrokerConnection
from pykafka.network.dialing import ANY_FAMILY, reason_of
from pykafka.network.options import ConnectionSettings
from pykafka.network.proxies import Proxy
from pykafka.protocol import wire
from pykafka.protocol.schema import decode_response, encode_request
from pykafka.protocol.versions import choose
from pykafka.security import SslConfig

if TYPE_CHECKING:
    from pykafka.handlers import Handler, Stream
    from pykafka.protocol.versions import ApiRanges


_PRODUCE, _FETCH, _LIST_OFFSETS, _LEADER_AND_ISR, _OFFSET_COMMIT, _OFFSET_FETCH = 0, 1, 2, 4, 8, 9
_JOIN_GROUP, _LIST_GROUPS, _ADD_PARTITIONS_TO_TXN, _DESCRIBE_ACLS, _DESCRIBE_LOG_DIRS = 11, 16, 24, 29, 35

#: The mark of each release: a version of an API that it was the first to support. Taken from the releases' own tables,
#: and verified with real brokers, with ZooKeeper and without.
_MARKS = (
    ("4.3", _DESCRIBE_LOG_DIRS, 5),
    ("4.2", _OFFSET_COMMIT, 10),
    ("4.1", _FETCH, 18),
    ("4.0", _PRODUCE, 12),
    ("3.9", _FETCH, 17),
    ("3.8", _PRODUCE, 11),
    ("3.7", _FETCH, 16),
    ("3.6", _ADD_PARTITIONS_TO_TXN, 4),
    ("3.5", _FETCH, 15),
    ("3.4", _LEADER_AND_ISR, 7),
    ("3.3", _DESCRIBE_ACLS, 3),
    ("3.2", _JOIN_GROUP, 9),
    ("3.1", _FETCH, 13),
    ("3.0", _LIST_OFFSETS, 7),
    ("2.8", _PRODUCE, 9),
    ("2.7", _FETCH, 12),
    ("2.6", _LIST_GROUPS, 4),
    ("2.5", _JOIN_GROUP, 7),
    ("2.4", _PRODUCE, 8),
    ("2.3", _FETCH, 11),
    ("2.2", _LIST_OFFSETS, 5),
    ("2.1", _FETCH, 10),
    ("2.0", _FETCH, 8),
    ("1.1", _FETCH, 7),
    ("1.0", _FETCH, 6),
    ("0.11", _FETCH, 5),
    ("0.10.2", _OFFSET_FETCH, 2),
    ("0.10.1", _FETCH, 3),
    ("0.10.0", _PRODUCE, 0),
)

OK, NOTE, FAILED = "ok", "note", "FAILED"
_METADATA_ID = 7


def speaks_as(ranges: ApiRanges) -> str:
    """Return "Kafka 3.9", or several releases that a broker's versions do not distinguish.

    :param ranges: {api key: (lowest version, highest version)}
    """
    if wire.ApiVersionsRequest.api_key not in ranges:
        return "Kafka 0.9" if wire.JoinGroupRequest.api_key in ranges else "Kafka 0.8.2"
    release = next((name for name, key, version in _MARKS if ranges.get(key, (0, -1))[1] >= version), "0.10.0")
    if release == _MARKS[0][0]:
        return f"Kafka {release} or later"
    # 3.4 changed nothing except the requests from controllers to brokers with ZooKeeper; others do not list them.
    if release == "3.3" and _LEADER_AND_ISR not in ranges:
        return "Kafka 3.3 or 3.4"
    return f"Kafka {release}"


class Finding(NamedTuple):
    """The result of one step.

    :param host: "host:port" as given, or as a broker advertises it
    :param step: Package, DNS, TCP, PROXY, TLS, SASL, ApiVersions, Metadata, Advertised, Internal, Create, Produce or Fetch
    :param result: "ok"; "FAILED"; "note" for a failure that does not block clients
    :param detail: the result, or the problem and its remedy
    :param ms: the duration
    """

    host: str
    step: str
    result: str
    detail: str
    ms: int = 0


class _SteppingHandler(ThreadingHandler):
    """A handler that resolves to one address only, and records each step that succeeds."""

    def __init__(self, host: str, address: Address) -> None:
        super().__init__()
        self._host = host
        self._address = address
        self.steps: list[Finding] = []

    def resolve(
        self, host: str, port: int, timeout: float | None = None, wanted: Callable[[], bool] | None = None
    ) -> list[Address]:
        """Return the one address; a proxy's host is looked up as always."""
        if address_text(host, port) != self._host:
            return super().resolve(host, port, timeout, wanted)
        return [self._address]

    def connect(
        self,
        address: Address,
        timeout: float,
        source_address: tuple[str, int] | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> Stream:
        """Connect, as `Handler.connect`."""
        started = self.now()
        stream = super().connect(address, timeout, source_address, wanted)
        self._passed("TCP", started, address=address)
        return stream

    def wrap_tls(self, stream: Stream, context: Any, server_hostname: str | None, timeout: float) -> Stream:
        """Start TLS, as `Handler.wrap_tls`."""
        started = self.now()
        wrapped = super().wrap_tls(stream, context, server_hostname, timeout)
        self._passed("TLS", started, f", certificate of {server_hostname}")
        return wrapped

    def _passed(self, step: str, started: float, more: str = "", address: Address | None = None) -> None:
        where = (address or self._address).text
        self.steps.append(Finding(self._host, step, OK, f"{where}{more}", _since(self, started)))


class Examination:
    """A diagnosis of the given addresses, then of those that the brokers advertise.

    :param timeout_ms: timeout of each connect and each response
    :param settings: how to make connections
    """

    def __init__(self, timeout_ms: int, settings: ConnectionSettings) -> None:
        self._timeout_ms = timeout_ms
        self._settings = settings
        self._handler = ThreadingHandler()
        #: Whether a broker has answered all requests.
        self.reached = False
        self._metadata: dict[str, wire.MetadataResponse] = {}

    def run(self, seeds: list[tuple[str, int]]) -> Iterator[Finding]:
        """Yield the findings, step by step.

        :param seeds: (host, port) pairs
        """
        for host, port in seeds:
            yield from self._examine(host, port)
        known = dict(self._metadata)
        waiting = deque((seed, broker) for seed, metadata in known.items() for broker in metadata.brokers)
        done = {address_text(host, port) for host, port in seeds}
        judged: set[str] = set()
        while waiting:
            seed, broker = waiting.popleft()
            advertised = address_text(broker.host, broker.port)
            if advertised in judged:
                continue
            judged.add(advertised)
            findings = [] if advertised in done else list(self._examine(broker.host, broker.port))
            yield from findings
            clusters = {where: metadata.cluster_id for where, metadata in self._metadata.items()}
            yield judge_advertised(seed, broker, findings, clusters)

    def _examine(self, host: str, port: int) -> Iterator[Finding]:
        """Yield the findings about one host. A failing address does no harm if another address works."""
        text = address_text(host, port)
        started = self._handler.now()
        proxy = self._settings.proxy
        if isinstance(proxy, Proxy) and proxy.resolves:
            findings = list(self._examine_address(host, port, Address(ANY_FAMILY, (host, port))))
            self.reached = self.reached or all(finding.result == OK for finding in findings)
            yield from findings
            return
        try:
            addresses = self._handler.resolve(host, port, timeout=self._timeout_ms / 1000)
        except (OSError, UnicodeError) as error:
            why = f"{host!r} cannot be resolved: {reason_of(error)}; check the name, or the resolver of this machine"
            yield Finding(text, "DNS", FAILED, why, _since(self._handler, started))
            return
        found = ", ".join(dict.fromkeys(str(address.sockaddr[0]) for address in addresses)) or "no address"
        yield Finding(text, "DNS", OK if addresses else FAILED, found, _since(self._handler, started))
        examined = [list(self._examine_address(host, port, address)) for address in addresses]
        works = any(all(finding.result == OK for finding in findings) for findings in examined)
        for findings in examined:
            for finding in findings:
                yield finding._replace(result=NOTE) if works and finding.result == FAILED else finding
        self.reached = self.reached or works

    def _examine_address(self, host: str, port: int, address: Address) -> Iterator[Finding]:
        text = address_text(host, port)
        handler = _SteppingHandler(text, address)
        connection = BrokerConnection(host, port, handler, settings=self._settings)
        started = handler.now()
        try:
            step = "TCP"
            try:
                connection.connect(self._timeout_ms)
            except KafkaException as error:
                step = error.attempts[-1].stage if error.attempts else step
                raise
            else:
                if self._settings.proxy is not None:
                    detail = f"{address.text}, through {self._settings.proxy}"
                    handler.steps.insert(1, Finding(text, "PROXY", OK, detail, _since(handler, started)))
            finally:
                yield from handler.steps
            if self._settings.sasl is not None:
                name = self._settings.sasl.name
                yield Finding(text, "SASL", OK, f"{address.text}, logged in by {name}", _since(handler, started))
            step, started = "ApiVersions", handler.now()
            ranges = negotiate(connection, handler, self._timeout_ms, CLIENT_ID)
            yield Finding(
                text, step, OK, f"{len(ranges)} APIs, as {speaks_as(ranges)} has them", _since(handler, started)
            )
            step, started = "Metadata", handler.now()
            metadata = _ask_metadata(connection, choose(wire.MetadataRequest, ranges, broker=text))
            yield _metadata_finding(text, metadata, _since(handler, started))
            self._metadata.setdefault(text, metadata)
        except KafkaException as error:
            if isinstance(error, SaslRequiredError):
                step = "SASL"
            elif step == "ApiVersions" and error.attempts:  # TLS may fail as late as that
                step = error.attempts[-1].stage
            why = self._reason(error, step, host, port, address)
            yield Finding(text, step, FAILED, in_options(why), _since(handler, started))
        finally:
            connection.disconnect()

    def _reason(self, error: KafkaException, step: str, host: str, port: int, address: Address) -> str:
        """Return why a step failed: a port of TLS answers neither ApiVersions nor a login."""
        unread = step == "ApiVersions" or (step == "SASL" and isinstance(error, SocketDisconnectedError))
        if unread and self._settings.ssl_config is None and self._speaks_tls(host, port, address):
            return "it answers in TLS: use --tls, and --cafile if its authority is private"
        return error.text if address.text in error.text else f"{address.text}: {error.text}"

    def _speaks_tls(self, host: str, port: int, address: Address) -> bool:
        """Return whether the server at an address speaks TLS; not every server says so without TLS."""
        handler = _SteppingHandler(address_text(host, port), address)
        settings = ConnectionSettings(ssl_config=SslConfig(None), proxy=self._settings.proxy)
        connection = BrokerConnection(host, port, handler, settings=settings)
        try:
            connection.connect(self._timeout_ms)
        except KafkaException as error:
            return isinstance(error, TlsError) and "certificate" in error.text  # it has shown one, or wants ours
        finally:
            connection.disconnect()
        return True


def judge_advertised(
    seed: str,
    broker: wire.MetadataResponse.Broker,
    findings: Sequence[Finding] = (),
    clusters: Mapping[str, str | None] | None = None,
) -> Finding:
    """Return a finding about an advertised address: whether a client that started at the seed reaches that broker.

    :param seed: "host:port" where the client started
    :param broker: the broker in the metadata from there
    :param findings: the steps with the advertised address
    :param clusters: {"host:port": id of the cluster at that address}
    """
    text = address_text(broker.host, broker.port)
    who = f"broker {broker.node_id} advertises {text}"
    remedy = "set advertised.listeners of that broker to an address that leads to it from here"
    ours, theirs = (clusters or {}).get(seed), (clusters or {}).get(text)
    failure = next((finding for finding in findings if finding.result == FAILED), None)
    if failure is not None:
        why = f"{who} and sends clients there, but it fails at {failure.step}; {remedy}"
    elif is_loopback(broker.host) and not is_loopback(seed.rpartition(":")[0]):
        why = f"{who}, which every client takes for its own machine, not {seed}; {remedy}"
    elif ours is not None and theirs is not None and ours != theirs:
        why = f"{who}, where cluster {theirs} answers instead of {ours}; {remedy}"
    else:
        return Finding(seed, "Advertised", OK, who)
    return Finding(seed, "Advertised", FAILED, why)


def _ask_metadata(connection: BrokerConnection, version: int) -> wire.MetadataResponse:
    """Ask for brokers and cluster id, and for no topics; before 0.10, which cannot say that, for all topics."""
    request = wire.MetadataRequest(topics=[], allow_auto_topic_creation=False)
    connection.send(encode_request(request, version, _METADATA_ID, CLIENT_ID))
    number, response = decode_response(wire.MetadataRequest, version, connection.receive())
    if number != _METADATA_ID:
        raise CorrelationIdError(f"an answer to request {number} came instead of {_METADATA_ID}: is it a Kafka port?")
    return response


def _metadata_finding(text: str, metadata: wire.MetadataResponse, ms: int) -> Finding:
    count = len(metadata.brokers)
    if not count:
        why = "it names no brokers: it is starting or cut off from the others, or (0.8.2) the cluster has no topic yet"
        return Finding(text, "Metadata", FAILED, why, ms)
    cluster = f"cluster {metadata.cluster_id}, " if metadata.cluster_id else ""
    return Finding(text, "Metadata", OK, f"{cluster}{count} broker{'' if count == 1 else 's'}", ms)


def _since(handler: Handler, started: float) -> int:
    """Return the time since a moment (ms)."""
    return round((handler.now() - started) * 1000)


def address_text(host: str, port: int) -> str:
    """Return host and port in the common notation."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether a name means the local machine for every user."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower().rstrip(".").split(".")[0] == "localhost"
