"""The watchers of a pipeline while it runs: lines of JSON, metrics, alerts, restarts."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pykafka.security.http import PostError, post
from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.events import ENDED, FAILED, RECOVERED, STARTED, Event, Journal, Watcher
from pykafka.spark.pipeline.metrics import CONTENT_TYPE, Metrics, TextServer
from pykafka.spark.pipeline.operation import Address, Alert
from pykafka.spark.pipeline.restarts import Restarts
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.spark.pipeline.running import StopRequest


log = logging.getLogger("pykafka.spark.pipeline")

#: Pauses between tries (ms).
FIRST_MS, MOST_MS = 500, 5000
#: Alerts that may wait for the endpoint; further ones are left out, and that is logged.
_MOST_WAITING = 16
#: How long the end of the program waits for alerts that are under way (s).
END_S = 15.0
#: The interval of checks in that wait whether the program is to end at once (s).
_POLL_INTERVAL_S = 0.2


class Alerts:
    """The sender of alerts, with one worker of its own: neither a slow endpoint nor a dead one holds the pipeline up.

    :param handler: makes the worker
    :param alert: where alerts go
    """

    def __init__(self, handler: Handler, alert: Alert) -> None:
        self._handler = handler
        self._alert = alert
        self._backoff = Backoff(FIRST_MS, MOST_MS, handler.random)
        self._waiting = handler.Queue(_MOST_WAITING)
        self._ended, self._hurry = handler.Event(), handler.Event()
        self._worker = handler.spawn(self._send, name="pykafka-alerts")

    def watch(self, event: Event) -> None:
        """Queue an event that is worth an alert; return at once."""
        if event.kind not in (FAILED, RECOVERED):
            return
        try:
            self._waiting.put_nowait(json.dumps(event.as_dict()).encode())
        except self._handler.QueueFullError:
            log.warning("an alert to %s was left out: %d wait already", self._alert.where, _MOST_WAITING)

    def close(self, timeout: float = END_S, is_hurried: Callable[[], bool] = lambda: False) -> None:
        """End the worker when it has sent what waits.

        :param timeout: how long that may take (s)
        :param is_hurried: returns whether to wait no longer
        """
        self._ended.set()
        deadline = self._handler.now() + timeout
        while not self._worker.join(min(_POLL_INTERVAL_S, max(deadline - self._handler.now(), 0.0))):
            if self._handler.now() < deadline and not is_hurried():
                continue
            self._hurry.set()
            log.warning("an alert to %s was given up: the program ends", self._alert.where)
            return

    def _send(self) -> None:
        while not self._hurry.is_set():
            try:
                body = self._waiting.get(timeout=0.2)
            except self._handler.QueueEmptyError:
                if self._ended.is_set():
                    return
                continue
            self._deliver(body)

    def _deliver(self, body: bytes) -> None:
        for failures in range(1, self._alert.attempts + 1):
            try:
                post(self._handler, self._alert.url, body, self._alert.timeout_s)
                return
            except PostError as error:
                reason, lasting = str(error), error.lasting
            except Exception as error:  # noqa: BLE001 - the next alert may get through; the text may have the URL
                reason, lasting = type(error).__name__, True
            if lasting or failures == self._alert.attempts or self._hurry.wait(self._backoff.seconds(failures)):
                log.warning("an alert to %s failed after %d tries: %s", self._alert.where, failures, reason)
                return


@dataclass(frozen=True)
class Watch:
    """A pipeline that is watched.

    :param journal: takes its events
    :param restarts: starts it again
    :param metrics: where its metrics are served; None for nowhere
    """

    journal: Journal
    restarts: Restarts[Any]
    metrics: Address | None

    def publish_start(self) -> None:
        """Publish a start, the first or a further one."""
        self.journal.publish(STARTED, {"metrics": None if self.metrics is None else str(self.metrics)})


def _close(alerts: Alerts, stop: StopRequest) -> None:
    """Wait for alerts under way: within the grace period if a stop was requested, and no longer at a second request."""
    alerts.close(min(END_S, stop.grace_s) if stop.asked else END_S, lambda: stop.asked > 1)


@contextmanager
def watched(
    declaration: Declaration,
    handler: Handler,
    stop: StopRequest,
    reason: Callable[[Exception], str],
    watchers: tuple[Watcher, ...] = (),
) -> Iterator[Watch]:
    """Watch a pipeline for the length of the block, which runs it.

    :param declaration: the pipeline
    :param handler: makes the workers of metrics and alerts
    :param stop: ends the pauses between restarts
    :param reason: returns the sentence of an error
    :param watchers: called with each event
    :raises PipelineError: metrics cannot be served at their address
    """
    operation = declaration.operation
    journal = Journal(declaration.name, handler, watchers)
    with ExitStack() as stack:
        metrics = Metrics(declaration.name, tuple(map(declaration.query_of, declaration.outputs)), handler)
        if operation.metrics is not None:
            journal.add(metrics.watch)
        if operation.alert is not None:
            alerts = Alerts(handler, operation.alert)
            stack.callback(_close, alerts, stop)
            journal.add(alerts.watch)
        restarts: Restarts[Any] = Restarts(handler, operation.restart, journal, stop, reason)
        journal.add(restarts.watch)  # last: it publishes more
        how = "failed"
        try:
            address = None
            if operation.metrics is not None:
                server = TextServer(handler, operation.metrics, CONTENT_TYPE, metrics.render)
                address = stack.enter_context(server).address
            watch = Watch(journal, restarts, address)
            watch.publish_start()
            yield watch
            how = "stopped" if stop.asked else "done"
        except (KeyboardInterrupt, SystemExit):  # signals before Spark starts
            how = "stopped"
            raise
        except Exception as error:
            restarts.report(error, is_last=True)
            raise
        finally:
            journal.publish(ENDED, {"status": how})
