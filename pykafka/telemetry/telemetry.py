"""`Telemetry`: pushes the metrics of a client to a broker that has subscribed to some (KIP-714)."""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from pykafka.exceptions import (
    ClientClosedError,
    InvalidRequest,
    KafkaException,
    ResponseTimeoutError,
    TelemetryTooLarge,
    TelemetryUnavailableError,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
    WorkerNotStartedError,
    error_for,
)
from pykafka.handlers.interrupts import OwnedWorker, is_at_work
from pykafka.metadata.lifecycle import Tether
from pykafka.metrics.metric import MetricName
from pykafka.protocol import wire
from pykafka.telemetry.application_metrics import READ_S, ApplicationMetrics
from pykafka.telemetry.collector import Collector, Push
from pykafka.telemetry.sources import Source, Sources
from pykafka.telemetry.subscription import NO_ID, Subscription, choose_broker
from pykafka.utils.backoff import Backoff
from pykafka.utils.compression import NONE, compress

if TYPE_CHECKING:
    from pykafka.handlers.base import EventType, Worker
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

#: The pause where no broker has named one, or one that is not positive (s).
DEFAULT_INTERVAL_S = 300.0
#: The first push comes after this part of the interval: clients that began together do not push together.
JITTER = (0.5, 1.5)
#: How long the worker sleeps at most before it looks whether its client is still there (s).
OWNER_POLL_INTERVAL_S = 5.0
#: How long a broker may take to answer (ms), unless the client's timeout is shorter.
ANSWER_MS = 10_000
#: How long `close()` waits for the last push (s).
LAST_PUSH_S = 1.0
#: How long the functions of the application's metrics may take then (s): the rest is for the push.
LAST_READ_S = 0.2
#: Pauses after a broker did not answer: the first, and the longest (ms).
RETRY_MS, RETRY_MAX_MS = 1_000, 60_000
#: Its name among the objects that a cluster keeps.
_KEPT = "telemetry"
#: How long an error is not logged again (s).
AGAIN_S = 3600.0
#: How long the client heeds that a broker took no compressed or no large push, before it tries again (s).
HEEDED_S = 3600.0


class _Limits(NamedTuple):
    """Limits of a broker beyond its subscription, learnt as it refused a push.

    :param uncompressed: whether it takes no compressed push
    :param max_bytes: of a push; None for what the subscription says
    :param until: when the client tries again, of the handler's clock (s)
    """

    uncompressed: bool = False
    max_bytes: int | None = None
    until: float = math.inf


_NO_LIMITS = _Limits()


class Telemetry(Tether):
    """The pushes of one client's metrics.

    The worker asks a broker which metrics it wants, and pushes them to it regularly. It holds its client weakly.

    State: the worker's, but for the flags `_stopping` and `_why_not`, the events, and `_worker`, which changes under `_lock`.

    :param cluster: held weakly
    """

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = weakref.ref(cluster)
        self._handler = handler = cluster.handler
        self._limiter = cluster.limiter
        #: Whether the option `enable_metrics_push` is on.
        self.enabled = cluster.metrics_settings.enable_metrics_push
        self._application = ApplicationMetrics(handler, self._limiter)
        self._sources = Sources(self._limiter)
        self._backoff = Backoff(RETRY_MS, RETRY_MAX_MS, handler.random)
        self._stopping = False
        self._begin()
        super().__init__(handler.Event())
        cluster.stop_at_close(self)
        handler.at_fork(self._after_fork)

    def _begin(self) -> None:
        self._collector = Collector(self._handler, self._limiter)
        self._lock = self._handler.Lock()
        self._worker: Worker | None = None
        self._id = NO_ID
        #: Set when the client has an id, or is not going to get one.
        self._identified = self._handler.Event()
        # Why nothing is pushed any more.
        self._why_not = ""
        self._node: Node | None = None
        self._subscription: Subscription | None = None
        # When to ask or push next, and the pause that a broker has named last (s).
        self._due = 0.0
        self._interval_s = DEFAULT_INTERVAL_S
        # How many brokers in a row did not answer, and the last of them.
        self._failures = 0
        self._failed: Node | None = None
        # Of the present broker: another one may be configured otherwise.
        self._limits = _NO_LIMITS

    def _after_fork(self) -> None:
        """Make this child a client of its own, with an id of its own; its next metadata starts the worker."""
        self._begin()
        self.wake = self._handler.Event()
        self._application.after_fork()

    # -- calls of the application ----------------------------------------------------------------------------------

    def register(self, name: MetricName, read: Callable[[], float], kind: str, unit: str, description: str) -> None:
        """Add a metric of the application; `ApplicationMetrics.register` has parameters and errors."""
        cluster = self._cluster()
        taken = self._sources.names(cluster) if cluster is not None else set()
        self._application.register(name, read, kind, unit, description, taken)

    def unregister(self, name: MetricName) -> None:
        """Remove a metric of the application.

        :raises KeyError: it is not registered
        """
        self._application.unregister(name)

    def instance_id(self, timeout: float) -> UUID:
        """Return the id that a broker has given this client.

        :param timeout: how long to wait for it (s)
        :raises TelemetryUnavailableError: the option is off, or no broker takes metrics of clients
        :raises ResponseTimeoutError: no broker has given one in time
        """
        if self._id != NO_ID:
            return self._id
        cluster = self._cluster()
        if cluster is None or cluster.closed:
            raise ClientClosedError("this client was closed; make a new KafkaClient")
        if not self.enabled:
            raise TelemetryUnavailableError(
                "the client has no instance id, as enable_metrics_push is False; leave it True"
            )
        deadline = self._handler.now() + timeout
        if not is_at_work(self._worker):
            choose_broker(cluster.brokers.values(), None, lambda: deadline - self._handler.now())
            self.start()
        self._identified.wait(max(deadline - self._handler.now(), 0.0))
        if self._id != NO_ID:
            return self._id
        if self._why_not:
            raise TelemetryUnavailableError(self._why_not)
        if self._stopping:
            raise ClientClosedError("this client was closed while it waited for an instance id")
        raise ResponseTimeoutError(
            f"no broker has given this client an instance id within {timeout:g} s; call again, with more time"
        )

    # -- the worker ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the worker, unless it runs, or brokers have refused the metrics of this client."""
        if self._stopping or self._why_not or not self.enabled or is_at_work(self._worker):
            return
        with self._lock:
            if not is_at_work(self._worker):
                run = partial(_push_regularly, weakref.ref(self), self.wake)
                self._worker = worker = OwnedWorker(self._handler, run, "pykafka.telemetry.Telemetry")
                try:
                    worker.start()
                except WorkerNotStartedError as error:
                    self._complain("no worker", "metrics are not pushed to brokers yet: %s", error)

    def stop(self) -> None:
        """Push for the last time, and end the worker; this waits for `LAST_PUSH_S` at most."""
        self._stopping = True
        self.wake.set()
        self._identified.set()
        if self._worker is not None:
            self._worker.join(LAST_PUSH_S)

    def step(self) -> float | None:
        """Ask or push, if that is due; return how long to wait then (s), or None at the end."""
        cluster = self._cluster()
        if cluster is None or cluster.closed or self._why_not:
            return None
        if self._stopping:
            self._push_last(cluster)
            return None
        left = self._due - self._handler.now()
        if left <= 0:
            try:
                self._exchange(cluster)
            except KafkaException as error:
                self._move(error)
            except Exception as error:  # noqa: BLE001 - of one push: the worker goes on, and closing pushes for the last time
                self._due = self._handler.now() + self._interval_s
                self._handler.report("a push of metrics, which is left out", error)
            left = self._due - self._handler.now()
        return max(left, 0.0)

    def _exchange(self, cluster: BaseCluster) -> None:
        """Ask for the subscription, or push."""
        timeout_ms = min(cluster.socket_timeout_ms, ANSWER_MS)
        node = self._node
        if node is None or cluster.brokers.get(node.id) is not node:
            deadline = self._handler.now() + timeout_ms / 1000
            self._subscription, self._limits = None, _NO_LIMITS
            self._node = node = choose_broker(
                cluster.brokers.values(), self._failed, lambda: deadline - self._handler.now()
            )
        if self._limits.until <= self._handler.now():
            self._subscription, self._limits = None, _NO_LIMITS
        if self._subscription is None:
            self._ask(node, timeout_ms)
        else:
            self._push(cluster, node, self._subscription, timeout_ms)
        self._failures, self._failed = 0, None

    def _move(self, error: KafkaException) -> None:
        """Go to another broker, after a pause."""
        if self._stopping:
            return
        where = "no broker" if self._node is None else f"broker {self._node.address}"
        self._failed, self._node = self._node, None
        self._failures += 1
        self._due = self._handler.now() + self._backoff.seconds(self._failures)
        unavailable = isinstance(error, TelemetryUnavailableError)
        if unavailable:  # the next metadata may name other brokers
            self._due = self._handler.now() + DEFAULT_INTERVAL_S
        level = logging.WARNING if self._failures > 1 and not unavailable else logging.INFO
        self._complain("moving", "%s takes no metrics of this client now: %s", where, error, level=level)

    def _ask(self, node: Node, timeout_ms: int) -> None:
        """Ask which metrics the broker wants."""
        request = wire.GetTelemetrySubscriptionsRequest(client_instance_id=self._id)
        response = node.call(request, timeout_ms=timeout_ms)
        now = self._handler.now()
        if response.error_code:
            self._due = now + self._interval_s
            self._refused(error_for(response.error_code, broker=node.address, api="GetTelemetrySubscriptions"))
            return
        if self._id == NO_ID:
            self._id = response.client_instance_id
            self._identified.set()
        subscription = Subscription.of(response, DEFAULT_INTERVAL_S)
        self._interval_s = subscription.interval_s
        if not subscription.prefixes:
            self._due = now + self._interval_s
            return
        if self._limits.max_bytes is not None:
            subscription = subscription._replace(max_bytes=min(subscription.max_bytes, self._limits.max_bytes))
        self._subscription = subscription
        self._due = now + self._interval_s * self._handler.random.uniform(*JITTER)
        log.debug("broker %s wants metrics of this client, %s: %s", node.address, self._id, subscription)

    def _push(
        self, cluster: BaseCluster, node: Node, subscription: Subscription, timeout_ms: int, last: bool = False
    ) -> None:
        """Push what the broker wants."""
        codec = NONE if self._limits.uncompressed else subscription.codec
        sources = self._read(cluster)
        prefixes, is_delta, max_bytes = subscription.prefixes, subscription.is_delta, subscription.max_bytes
        push = self._collector.collect(sources, prefixes, is_delta, max_bytes)
        data = push.data if codec == NONE else self._handler.offload(compress, codec, push.data)
        request = wire.PushTelemetryRequest(
            client_instance_id=self._id,
            subscription_id=subscription.id,
            terminating=last,
            compression_type=codec,
            metrics=bytes(data),
        )
        response = node.call(request, timeout_ms=timeout_ms, once=True)
        self._due = self._handler.now() + subscription.interval_s
        if response.error_code:
            self._not_taken(error_for(response.error_code, broker=node.address, api="PushTelemetry"), push)
            return
        self._collector.taken(push)
        self._collector.forget_gone(sources)

    def _read(self, cluster: BaseCluster) -> list[Source]:
        sources = self._sources.read(cluster)
        sources[-1].metrics.extend(self._application.read(LAST_READ_S if self._stopping else READ_S))
        return sources

    def _not_taken(self, error: KafkaException, push: Push) -> None:
        """Act on the error of a push."""
        until = self._handler.now() + HEEDED_S
        if isinstance(error, (UnknownSubscriptionId, UnsupportedCompressionType)):
            if isinstance(error, UnsupportedCompressionType):
                self._limits = self._limits._replace(uncompressed=True, until=until)
            self._subscription = None
            self._due = self._handler.now()
            return
        if isinstance(error, TelemetryTooLarge) and self._subscription is not None:
            most = len(push.data) // 2
            self._limits = self._limits._replace(max_bytes=most, until=until)
            self._subscription = self._subscription._replace(max_bytes=most)
        self._refused(error)

    def _refused(self, error: KafkaException) -> None:
        """Log an error of the broker, and give up if it is not going to change its mind."""
        if isinstance(error, ThrottlingQuotaExceeded):
            log.debug("%s", error)
            return
        # Not INVALID_RECORD, which Java's client takes for final: a plugin that fails now may work later.
        if isinstance(error, InvalidRequest):
            self._why_not = f"the broker refuses the metrics of this client: {error}"
            self._identified.set()
        self._complain("refused", "metrics of this client are not pushed: %s", error)

    def _push_last(self, cluster: BaseCluster) -> None:
        """Push with the word that the client ends, if a broker wants metrics of it."""
        node, subscription = self._node, self._subscription
        if node is None or subscription is None:
            return
        try:
            self._push(cluster, node, subscription, round(LAST_PUSH_S * 1000), last=True)
        except KafkaException as error:
            log.info("the last metrics of this client were not pushed: %s", error)

    def _complain(self, about: str, text: str, *args: object, level: int = logging.WARNING) -> None:
        self._limiter.warn(log, f"telemetry {about}", text, *args, level=level, again_s=AGAIN_S)


def _push_regularly(reference: weakref.ref[Telemetry], wake: EventType) -> None:
    """Push regularly while the client is there: the worker's main function, which does not keep the client alive."""
    while True:
        telemetry = reference()
        # A forked child has copies of the parent's greenlets; it makes a worker, and an event, of its own.
        left = telemetry.step() if telemetry is not None and telemetry.wake is wake else None
        del telemetry
        if left is None:
            return
        wake.wait(min(left, OWNER_POLL_INTERVAL_S))


def telemetry_of(cluster: BaseCluster) -> Telemetry:
    """Return the telemetry of a client, and make it if there is none."""
    kept: dict[str, Any] = cluster.kept
    telemetry: Telemetry | None = kept.get(_KEPT)
    # One step: two workers get the same one, and the other was not started.
    return kept.setdefault(_KEPT, Telemetry(cluster)) if telemetry is None else telemetry
