"""`Brokers`: the brokers of one cluster, kept up with its metadata, and asked one after another."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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
    TokenTimeoutError,
    TokenUnavailableError,
    WorkerNotStartedError,
)
from pykafka.metadata.elections import ASKED_IN_TIME
from pykafka.metadata.options import REBOOTSTRAP, MetadataSettings
from pykafka.metadata.stale_brokers import StaleBrokers
from pykafka.network.addresses import canonical_addresses, parse_hosts
from pykafka.network.dialing import Attempt
from pykafka.network.known_versions import KnownVersions
from pykafka.network.options import CANONICAL
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
#: How long a connect may take while there are other brokers to ask (ms): one that swallows packets would hold up all metadata.
QUICK_CONNECT_MS = 3000
#: The same for those behind it (ms), as workers go on connecting to those before: many may hang.
NEXT_CONNECT_MS = 500
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
        self._end_meanwhile(partial(_close_all, self._handler, brokers), [broker.forsake for broker in brokers])

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
        _close_all(self._handler, self.every())
        deadline = self._handler.now() + PARTING_S
        for worker in self._partings:
            worker.join(max(0.0, deadline - self._handler.now()))

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
            _close_all(self._handler, list(own.values()))


def first_answer(
    handler: Handler,
    brokers: Iterable[Node],
    ask: Callable[[Node], R],
    what: str,
    telling: Callable[[R], bool] | None = None,
    left_ms: Callable[[], int] | None = None,
    late: Callable[[], Iterable[R]] = list,
) -> R:
    """Return the first answer; brokers that a quick connect does not reach are asked again after the others.

    :param handler: supplies workers, which connect to one broker each
    :param brokers: the brokers to ask, in this order
    :param ask: asks one broker
    :param what: the request's name in logs
    :param telling: returns whether an answer is useful; a useless one is returned only if all are
    :param left_ms: returns how long brokers may still be asked (ms), 0 at the end; None for no limit
    :param late: gives answers that come when all were asked
    :raises NoBrokersAvailableError: none answered; `.attempts` has every attempt
    :raises ProtocolClientError: one has refused
    :raises FieldValueError: the request cannot be written
    :raises FieldNotAvailableError: nor can it in the versions of all brokers that were asked
    :raises SaslRequiredError, TokenUnavailableError: there are no credentials to log in with
    """
    return _FirstAnswer(handler, ask, what, telling, left_ms).of(brokers, late)


class _FirstAnswer(Generic[R]):
    """One call of `first_answer`, which has the parameters."""

    def __init__(
        self,
        handler: Handler,
        ask: Callable[[Node], R],
        what: str,
        telling: Callable[[R], bool] | None,
        left_ms: Callable[[], int] | None,
    ) -> None:
        self._handler = handler
        self._ask = ask
        self._what = what
        self._telling = telling
        self._left_ms = left_ms
        self._attempts: list[Any] = []
        # Those that a quick connect did not reach; a worker of their channel goes on.
        self._late: dict[Node, KafkaException] = {}
        self._empty: list[R] = []

    def _may_ask(self) -> bool:
        return self._left_ms is None or self._left_ms() > 0

    def of(self, brokers: Iterable[Node], late: Callable[[], Iterable[R]]) -> R:
        """Ask brokers, one after another, and then those together that were not reached at once."""
        for broker in brokers:
            if not self._may_ask():
                break
            hurried = broker.reach >= 2 and broker.socket_timeout_ms > QUICK_CONNECT_MS
            for one in (broker, *self._late):
                if one is not broker and not one.is_connected("main"):
                    continue
                for answer in self._answer(one, hurried and one is broker):
                    return answer
        if self._late and self._may_ask():
            for broker, error in self._reached(list(self._late)):
                for answer in self._answer(broker, False, error):
                    return answer
                if not self._may_ask():
                    break
        for answer in late():
            if self._telling is None or self._telling(answer):
                return answer
        # there was no time for a second try
        self._attempts += [(broker.address, error) for broker, error in self._late.items()]
        if self._empty:
            return self._empty[0]
        attempts = self._attempts
        if attempts and all(isinstance(error, FieldNotAvailableError) for _, error in attempts):
            raise attempts[0][1]  # they were reached, and are too old
        raise NoBrokersAvailableError(_explain(attempts), ledger=attempts)

    def _quick_ms(self) -> int:
        quick_ms = NEXT_CONNECT_MS if self._late else QUICK_CONNECT_MS
        if self._left_ms is None:
            return quick_ms
        left_ms = self._left_ms() or 1
        return min(quick_ms, left_ms, max(NEXT_CONNECT_MS, left_ms // ASKED_IN_TIME))

    def _reached(self, late: list[Node]) -> Iterator[tuple[Node, KafkaException | None]]:
        """Yield brokers with which there was no connection, each when it has one, or when its whole time is over."""

        def connect(broker: Node) -> None:
            broker.channel("main").open(None if self._left_ms is None else self._left_ms() or 1)

        from pykafka.metadata.reaching import reached  # mostly the first broker answers

        within_s = math.inf if self._left_ms is None else self._left_ms() / 1000
        return reached(self._handler, late, connect, within_s)

    def _answer(self, broker: Node, hurried: bool, failure: KafkaException | None = None) -> list[R]:
        """Return the answer of a broker; none if the others are to be asked.

        :param hurried: whether to connect quickly, and else to note that it is late
        :param failure: why it is not connected
        """
        was_late = self._late.pop(broker, None) is not None
        connecting = hurried
        try:
            if failure is not None:
                raise failure
            if hurried:
                broker.channel("main").open(self._quick_ms())
                connecting = False
            answer = self._ask(broker)
            if self._telling is None or self._telling(answer):
                return [answer]
            self._empty.append(answer)
        except KafkaException as error:
            # also one that sends its versions late: that is a part of connecting
            late = isinstance(error, (ConnectTimeoutError, TokenTimeoutError)) or (
                connecting and isinstance(error, ResponseTimeoutError)
            )
            # without its traceback, whose frames would hold the callers' objects for as long as the error is kept
            error_copy = error.again()
            if late and not was_late and broker.socket_timeout_ms > QUICK_CONNECT_MS:
                self._late[broker] = error_copy
                return []
            refused = isinstance(
                error, (ProtocolClientError, SaslRequiredError, TokenUnavailableError, FieldValueError)
            )  # the next broker would refuse it, too
            if refused and not isinstance(error, RebootstrapRequired):
                raise
            broker.warn("broker %s did not answer %s: %s", broker.address, self._what, error_copy)
            self._attempts.append((broker.address, error_copy))
        return []


def countdown(now: Callable[[], float], within_ms: int) -> Callable[[], int]:
    """Return a function that says how much of a time is left (ms), from now on; 0 at its end.

    :param now: the handler's clock
    """
    end = now() + within_ms / 1000
    return lambda: left_ms(end, now(), 0)


def _close_all(handler: Handler, brokers: list[Node]) -> None:
    """Close brokers, which all together have the time for answers on their way: several may hang."""
    from pykafka.network.requests import DRAIN_S  # one that closes brokers has connected to some

    deadline = handler.now() + DRAIN_S
    for broker in brokers:
        broker.close(drain_s=max(0.0, deadline - handler.now()))


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
