"""`Brokers`: the brokers of one cluster, kept up with its metadata, and asked one after another."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.exceptions import (
    ConnectTimeoutError,
    FieldNotAvailableError,
    FieldValueError,
    ForeignClusterError,
    KafkaException,
    NoBrokersAvailableError,
    ProtocolClientError,
    RebootstrapRequired,
    ResponseTimeoutError,
    SaslRequiredError,
    SocketDisconnectedError,
    TokenTimeoutError,
    TokenUnavailableError,
    WorkerNotStartedError,
)
from pykafka.metadata.options import REBOOTSTRAP, MetadataSettings
from pykafka.metadata.stale_brokers import StaleBrokers
from pykafka.network.addresses import canonical_addresses, parse_hosts
from pykafka.network.dialing import Attempt
from pykafka.network.known_versions import KnownVersions
from pykafka.network.options import CANONICAL
from pykafka.protocol import wire
from pykafka.utils.error_handlers import left_ms
from pykafka.utils.loglimit import LogLimiter

if TYPE_CHECKING:
    from pykafka.handlers import Handler, Worker
    from pykafka.network.node import Node
    from pykafka.network.requests import RequestHandler


log = logging.getLogger(__name__)

R = TypeVar("R")

#: How long a broker that metadata leaves out is kept while its connection stands (s): brokers that start up know few others.
MISSING_S = 5.0
#: How long `close()` waits for brokers that have left to be closed (s): answers that are on their way are waited for.
PARTING_S = 5.0
#: The versions to ask in after a hang-up: the last one without tagged fields, and the first that can leave topics uncreated.
LOWER_VERSIONS = (8, 4)
#: How often in a row a broker must hang up on the higher version before the client begins with the lower one.
HANG_UPS = 2
#: How long a connect may take while there are other brokers to ask (ms): one that swallows packets would hold up all metadata.
QUICK_CONNECT_MS = 3000
#: How often connections to seeds are made anew while brokers are asked in vain (s): others may wait for answers on them.
RENEW_S = 10.0
#: The `reach` of a broker whose connections fail, or that owes an answer.
_IN_TROUBLE = 3


class Brokers:
    """The brokers by id, and those that stand for the addresses at which the cluster is first reached.

    State: `by_id` is replaced as a whole, under the lock of `MetadataCache`; readers take no lock.

    :param handler: supplies the worker that closes brokers which have left
    :param make: `(id, host, port)` to a broker with the client's settings
    :param settings: when to begin again at the seeds
    :param limiter: leaves out lines of the log that only repeat others; the client's
    :param versions: what the brokers share with each other
    """

    def __init__(
        self,
        handler: Handler,
        make: Callable[[int, str, int], Node],
        settings: MetadataSettings | None = None,
        limiter: LogLimiter | None = None,
        versions: KnownVersions | None = None,
    ) -> None:
        settings = settings or MetadataSettings()
        self._returns = settings.metadata_recovery_strategy == REBOOTSTRAP
        self._trigger_s = settings.metadata_recovery_rebootstrap_trigger_ms / 1000
        # Since when metadata has been asked for in vain (s); None: the last request was answered.
        self._in_vain_since: float | None = None
        self._versions = versions or KnownVersions()
        # Whether brokers are to check that a connection is meant for them.
        self._identified = self._returns and settings.metadata_cluster_check_enable
        self._handler = handler
        self._limiter = limiter or LogLimiter(handler)
        self._make = make
        self.by_id: dict[int, Node] = {}
        self._seeds: dict[tuple[str, int], Node] = {}
        # Brokers that metadata leaves out although their connections stand, and since when (s).
        self._missing: dict[int, float] = {}
        # Workers that close brokers which have left.
        self._partings: list[Worker] = []
        # When connections to seeds were made anew last, of the handler's clock (s).
        self._renewed_at = -math.inf
        #: Those whose metadata did not help.
        self.stale = StaleBrokers(handler.now, settings.metadata_max_age_ms / 1000)

    def every(self) -> list[Node]:
        """Return all brokers, seeds included."""
        return [*self.by_id.values(), *self._seeds.values()]

    # -- following the metadata ------------------------------------------------------------------------------------

    def take_over(self, addresses: Mapping[int, tuple[str, int]]) -> list[Node]:
        """Take over the brokers of fresh metadata; return those that are gone or moved, for `part_with`.

        :param addresses: {id: (host, port)}
        """
        brokers = dict(self.by_id)
        left: list[Node] = []
        for id_, (host, port) in addresses.items():
            known = brokers.get(id_)
            if known is not None and (known.host, known.port) == (host, port):
                continue
            if known is not None:
                log.info("broker %d moved from %s to %s:%d", id_, known.address, host, port)
                left.append(known)
            brokers[id_] = self._make(id_, host, port)
        gone = set(brokers) - set(addresses)
        now = self._handler.now()
        missing = {id_: self._missing.get(id_, now) for id_ in gone if brokers[id_].stands}
        self._missing = {id_: since for id_, since in missing.items() if now - since < MISSING_S}
        left += [brokers.pop(id_) for id_ in gone - set(self._missing)]
        self.by_id = brokers
        return left

    def meet(self, id_: int, address: tuple[str, int]) -> list[Node]:
        """Take over one broker that another one has named; return the one that it replaces, if it moved, for `part_with`."""
        known = self.by_id.get(id_)
        if known is not None and (known.host, known.port) == address:
            return []
        if known is not None:
            log.info("broker %d moved from %s to %s:%d", id_, known.address, *address)
        self.by_id = {**self.by_id, id_: self._make(id_, *address)}
        return [] if known is None else [known]

    def part_with(self, brokers: list[Node]) -> None:
        """Refuse further use of brokers and close them, without waiting."""
        for broker in brokers:
            broker.part()
        self._end_meanwhile(partial(_close_all, brokers), [broker.forsake for broker in brokers])

    def drop_connections(self, broker: Node) -> None:
        """End the connections of a broker, without waiting for the answers on their way; the next requests make new ones."""
        if held := broker.detach_connections():
            self._end_meanwhile(partial(_stop_all, held), [requests.cut for requests in held])

    def _end_meanwhile(self, end: Callable[[], object], forsake: list[Callable[[], object]]) -> None:
        """End connections on a worker.

        :param forsake: end them at once, if the system starts no thread at present
        """
        self._partings = [worker for worker in self._partings if worker.is_alive()]
        try:
            self._partings.append(self._handler.spawn(end, name="pykafka.Cluster.parting"))
        except WorkerNotStartedError:
            for cut in forsake:
                cut()

    def close(self) -> None:
        """End the connections of all brokers."""
        _close_all(self.every())
        for worker in self._partings:
            worker.join(PARTING_S)

    def forsake(self) -> None:
        """End all connections without taking a lock or waiting."""
        for broker in self.every():
            broker.forsake()

    def after_fork(self) -> None:
        """Leave the parent its connections; this child makes its own when it needs them."""
        self._partings = []
        for broker in self.every():
            broker.after_fork()

    # -- asking ----------------------------------------------------------------------------------------------------

    def candidates(self, seeds: Callable[[], Iterable[tuple[str, int]]]) -> Iterator[Node]:
        """Yield those that are connected, then the others, then the seeds; the seeds first if a bootstrap is due.

        Brokers whose metadata did not help come behind the other brokers, each in its turn. Once in `metadata_max_age_ms`,
        those that have answered come behind those that have not, and the one that answered last comes last.

        :param seeds: gives their (host, port) if it comes to that
        """
        brokers = list(self.by_id.values())
        if len(brokers) > 1:
            self._handler.random.shuffle(brokers)
            brokers.sort(key=self._places())
        early = bool(brokers) and self.is_bootstrap_due
        if early:
            yield from self._bootstrap(seeds, brokers, asked=False)
        for broker in brokers:
            if self._versions.sent_back and not early:
                break
            yield broker
            self.stale.passed_over(broker.id)
        if not early and (self._returns or not brokers):
            yield from self._bootstrap(seeds, brokers, asked=not self._versions.sent_back)

    def _places(self) -> Callable[[Node], tuple[float, ...]]:
        """Return the key by which brokers are asked for metadata: the lowest first."""
        useless, turn = self.stale.order(), self.stale.turn()

        def place(broker: Node) -> tuple[float, ...]:
            reach = broker.reach
            # One in trouble would hold the others up.
            turns = () if turn is None else (reach >= _IN_TROUBLE, turn.get(broker.id, 0))
            return useless.get(broker.id, 0), broker.throttled_for(), *turns, reach

        return place

    @property
    def is_bootstrap_due(self) -> bool:
        """Whether the seeds are to be asked before the known brokers."""
        since = self._in_vain_since
        in_vain = since is not None and self._handler.now() - since >= self._trigger_s
        return self._returns and (self._versions.sent_back or in_vain)

    def _bootstrap(
        self, seeds: Callable[[], Iterable[tuple[str, int]]], brokers: list[Node], asked: bool
    ) -> Iterator[Node]:
        """Yield the seeds.

        :param brokers: the known ones
        :param asked: whether those have just been asked, so that the same addresses need not be asked again
        """
        try:
            addresses = list(dict.fromkeys(seeds()))
        except KafkaException as error:  # of ZooKeeper
            if not brokers:
                raise
            log.warning("no known broker answers, and new ones cannot be found: %s", error)
            return
        if brokers:
            where = ", ".join(f"{host}:{port}" for host, port in addresses)
            text = "no known broker answers: beginning again at %s"
            self._limiter.warn(log, "seeds", text, where, level=logging.INFO)
        for address in set(self._seeds).difference(addresses):  # names and ZooKeeper may give others than before
            gone = self._seeds.pop(address, None)
            if gone is not None:  # another worker may have been first
                self.part_with([gone])
        known = {(broker.host, broker.port) for broker in brokers} if asked else set()
        renewed = not asked and self._handler.now() - self._renewed_at >= RENEW_S
        if renewed:
            self._renewed_at = self._handler.now()
        for address in addresses:
            if address not in known:
                seed = self._seeds.get(address)
                if seed is None:
                    seed = self._seeds[address] = self._make(-1, *address)
                elif renewed:
                    self.drop_connections(seed)  # they lead to where the name led then
                yield seed

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Note that metadata is asked for. What interrupts that, such as Ctrl-C, is no failure of brokers."""
        mine = None
        if self._in_vain_since is None:
            mine = self._in_vain_since = self._handler.now()
        try:
            yield
        except KafkaException:
            raise
        except BaseException:
            if mine is not None and self._in_vain_since == mine:
                self._in_vain_since = None
            raise

    def answered(self) -> None:
        """Note that a broker has given metadata that can be used."""
        self._in_vain_since = None
        self._versions.sent_back = False

    def send_back(self) -> None:
        """Note that a broker has asked this client to begin again at the seeds (REBOOTSTRAP_REQUIRED)."""
        self._versions.sent_back = self._returns

    def belong_to(self, cluster_id: str | None) -> None:
        """Note the id of the cluster: brokers refuse connections that are meant for others (KIP-1242)."""
        self._versions.cluster_id = cluster_id if self._identified else None

    @contextmanager
    def at(self, addresses: Iterable[tuple[str, int]]) -> Iterator[list[Node]]:
        """Yield a broker for each address: a known one with its connections, or one that is closed afterwards.

        :param addresses: (host, port) pairs
        """
        known = {(broker.host, broker.port): broker for broker in self.by_id.values()}
        wanted = [(host, int(port)) for host, port in addresses]
        own = {address: self._make(-1, *address) for address in wanted if address not in known}
        try:
            yield [known.get(address) or own[address] for address in wanted]
        finally:
            _close_all(list(own.values()))


def first_answer(
    brokers: Iterable[Node],
    ask: Callable[[Node], R],
    what: str,
    telling: Callable[[R], bool] | None = None,
    left_ms: Callable[[], int] | None = None,
) -> R:
    """Return the first answer; brokers that a quick connect does not reach are asked again after the others.

    :param brokers: the brokers to ask, in this order
    :param ask: asks one broker
    :param what: the request's name in logs
    :param telling: returns whether an answer is useful; a useless one is returned only if all are
    :param left_ms: returns how long brokers may still be asked (ms), 0 at the end; None for no limit
    :raises NoBrokersAvailableError: none answered; `.attempts` has every attempt
    :raises ProtocolClientError: one has refused
    :raises FieldValueError: the request cannot be written
    :raises FieldNotAvailableError: nor can it in the versions of all brokers that were asked
    :raises SaslRequiredError, TokenUnavailableError: there are no credentials to log in with
    """
    attempts: list[Any] = []
    slow: dict[Node, KafkaException] = {}
    again: list[Node] = []
    empty: list[R] = []
    for broker in chain(brokers, again):  # in this order, as `again` grows meanwhile
        if left_ms is not None and not left_ms():
            break
        hurried = broker.reach >= 2 and broker not in again and broker.socket_timeout_ms > QUICK_CONNECT_MS
        slow.pop(broker, None)
        try:
            if hurried:
                quick_ms = QUICK_CONNECT_MS if left_ms is None else min(QUICK_CONNECT_MS, left_ms() or 1)
                broker.channel("main").open(quick_ms)
                hurried = False
            answer = ask(broker)
            if telling is None or telling(answer):
                return answer
            empty.append(answer)
        except KafkaException as error:
            # without its traceback, whose frames would hold the callers' objects for as long as the error is kept
            error_copy = error.again()
            # also one that sends its versions late: that is a part of connecting
            late = isinstance(error, (ConnectTimeoutError, TokenTimeoutError)) or (
                hurried and isinstance(error, ResponseTimeoutError)
            )
            if late and broker not in again and broker.socket_timeout_ms > QUICK_CONNECT_MS:
                slow[broker] = error_copy
                again.append(broker)
                continue
            refused = isinstance(
                error, (ProtocolClientError, SaslRequiredError, TokenUnavailableError, FieldValueError)
            )  # the next broker would refuse it, too
            if refused and not isinstance(error, RebootstrapRequired):
                raise
            broker.warn("broker %s did not answer %s: %s", broker.address, what, error_copy)
            attempts.append((broker.address, error_copy))
    attempts += [
        (broker.address, error_copy) for broker, error_copy in slow.items()
    ]  # there was no time for a second try
    if empty:
        return empty[0]
    if attempts and all(isinstance(error, FieldNotAvailableError) for _, error in attempts):
        raise attempts[0][1]  # they were reached, and are too old
    raise NoBrokersAvailableError(_explain(attempts), ledger=attempts)


def countdown(now: Callable[[], float], within_ms: int) -> Callable[[], int]:
    """Return a function that says how much of a time is left (ms), from now on; 0 at its end.

    :param now: the handler's clock
    """
    end = now() + within_ms / 1000
    return lambda: left_ms(end, now(), 0)


def _close_all(brokers: list[Node]) -> None:
    for broker in brokers:
        broker.close()


def _stop_all(connections: list[RequestHandler]) -> None:
    for requests in connections:
        requests.stop()


def _explain(attempts: list[Any]) -> str:
    foreign = next((error for _, error in attempts if isinstance(error, ForeignClusterError)), None)
    if foreign is not None and len(attempts) == 1:
        return foreign.text
    tried = "; ".join(_tell(address, error) for address, error in attempts)
    return f"no broker could be reached ({tried}); check hosts=, the network, and that the brokers are up"


def _tell(address: str, error: Any) -> str:
    """Return why a broker could not be reached, and of each of its addresses if it has several."""
    text = error.text if isinstance(error, KafkaException) else str(error)
    steps = getattr(error, "ledger", ())
    where = dict.fromkeys(f"{step.address} ({step.error})" for step in steps if isinstance(step, Attempt))
    several = f" [{', '.join(where)}]" if len(where) > 1 else ""
    stages = [step.stage for step in steps if isinstance(step, Attempt)]
    stage = f"{stages[-1]}: " if stages else ""
    return f"{stage}{text}{several}" if address in text else f"{address}: {stage}{text}{several}"


class Seeds:
    """The first addresses of a cluster: `hosts`, or the brokers that ZooKeeper has. Looked up again at each bootstrap.

    :param hosts: "host:port", with commas between several
    :param zookeeper_hosts: where ZooKeeper is; None: `hosts` counts
    :param client_dns_lookup: whether names in `hosts` stand for several brokers, as in `ConnectionSettings`
    :param handler: looks names up, and reaches ZooKeeper
    :param timeout_ms: for ZooKeeper's answers, and for names (ms)
    """

    def __init__(
        self,
        hosts: str | bytes,
        zookeeper_hosts: str | None,
        client_dns_lookup: str,
        handler: Handler,
        timeout_ms: int,
    ) -> None:
        #: What the application gave: the addresses of brokers, or of ZooKeeper.
        self.given = hosts if zookeeper_hosts is None else zookeeper_hosts
        #: Where ZooKeeper is, for a client that finds its brokers there.
        self.zookeeper_hosts = zookeeper_hosts
        self._addresses = parse_hosts(hosts) if zookeeper_hosts is None else []
        self._canonical = client_dns_lookup == CANONICAL
        self._handler = handler
        self._timeout_ms = timeout_ms

    @property
    def first_addresses(self) -> list[str]:
        """The addresses in `hosts`, as "host:port"; none for a client that finds its brokers through ZooKeeper."""
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self._addresses]

    def look_up(self, wanted: Callable[[], bool]) -> list[tuple[str, int]]:
        """Return (host, port) of each broker that may be asked first.

        :param wanted: whether the client still waits for names
        :raises NoBrokersAvailableError: ZooKeeper cannot be reached, or no broker is registered there
        """
        if self.zookeeper_hosts is not None:
            from pykafka.metadata.zookeeper import broker_addresses

            return broker_addresses(self.zookeeper_hosts, self._handler, self._timeout_ms)
        if self._canonical:
            return canonical_addresses(self._addresses, self._handler, self._timeout_ms / 1000, wanted)
        return list(self._addresses)


def call_metadata(
    broker: Node,
    request: wire.MetadataRequest,
    timeout_ms: int | None,
    ceiling: int | None,
    handler: Handler,
    strict: bool = False,
) -> wire.MetadataResponse:
    """Ask one broker; again in lower versions if it closes the connection, as some proxies do instead of refusing.

    :param timeout_ms: for all of it; None for the socket timeout
    :param ceiling: no version above this one
    :param handler: supplies the clock
    :param strict: throttling does not put that time off
    """
    deadline = handler.now() + (broker.socket_timeout_ms if timeout_ms is None else timeout_ms) / 1000
    is_lowered = broker.metadata_hang_ups >= HANG_UPS
    if is_lowered:
        ceiling = min(broker.metadata_ceiling, broker.metadata_ceiling if ceiling is None else ceiling)
    try:
        answer = broker.call(request, timeout_ms=timeout_ms, ceiling=ceiling, strict=strict)
        broker.metadata_hang_ups = HANG_UPS if is_lowered else 0
        return answer
    except SocketDisconnectedError as error:
        if not _is_hang_up(broker, error):
            broker.metadata_hang_ups = 0
            raise
        hung_up = error
    asked = broker.api_version(wire.MetadataRequest, ceiling, left_ms(deadline, handler.now(), 1))
    for lower in LOWER_VERSIONS:
        timeout_ms = left_ms(deadline, handler.now(), 0)
        if lower >= asked or not timeout_ms:
            continue
        broker.drop_channel("main")  # its pause after a failure is for brokers that are away
        try:
            answer = broker.call(request, timeout_ms=timeout_ms, ceiling=lower, strict=strict)
        except SocketDisconnectedError as error:
            if not _is_hang_up(broker, error):
                raise
            continue
        broker.metadata_ceiling = lower
        broker.metadata_hang_ups += 1
        return answer
    broker.metadata_hang_ups = 0
    raise hung_up


def _is_hang_up(broker: Node, error: SocketDisconnectedError) -> bool:
    """Return whether the broker closed a connection that had come about."""
    return type(error) is SocketDisconnectedError and not error.attempts and broker.knows_versions
