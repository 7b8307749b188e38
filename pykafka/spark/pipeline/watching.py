"""The watchers of a pipeline while it runs: lines of JSON, metrics, alerts, restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pykafka.spark.pipeline.alerts import END_S, Alerts
from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.events import ENDED, STARTED, Journal, Watcher
from pykafka.spark.pipeline.metrics import CONTENT_TYPE, Metrics
from pykafka.spark.pipeline.operation import Address
from pykafka.spark.pipeline.restarts import Restarts
from pykafka.spark.pipeline.serving import TextServer

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.spark.pipeline.running import StopRequest


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

    def tell_start(self) -> None:
        """Tell of a start, the first or a further one."""
        self.journal.tell(STARTED, {"metrics": None if self.metrics is None else str(self.metrics)})


def _close(alerts: Alerts, stop: StopRequest) -> None:
    """Wait for alerts under way: within the grace period where a stop was requested, and no longer at a second request."""
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
        journal.add(restarts.watch)  # last: it tells more in turn
        how = "failed"
        try:
            address = None
            if operation.metrics is not None:
                server = TextServer(handler, operation.metrics, CONTENT_TYPE, metrics.render)
                address = stack.enter_context(server).address
            watch = Watch(journal, restarts, address)
            watch.tell_start()
            yield watch
            how = "stopped" if stop.asked else "done"
        except (KeyboardInterrupt, SystemExit):  # signals before Spark starts
            how = "stopped"
            raise
        except Exception as error:
            restarts.tell(error, is_last=True)
            raise
        finally:
            journal.tell(ENDED, {"status": how})
