"""The webhook of a pipeline: one POST of JSON when it fails, and one when it is well again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka.security.posting import PostError, post
from pykafka.spark.pipeline.events import FAILED, RECOVERED, Event
from pykafka.spark.pipeline.operation import Alert
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.handlers import Handler

log = logging.getLogger("pykafka.spark.pipeline")

#: Pauses between tries (ms).
_FIRST_MS, _MOST_MS = 500, 5000
#: Alerts that may wait for the endpoint; further ones are left out, and that is logged.
_MOST_WAITING = 16
#: How long the end of the program waits for alerts that are under way (s).
END_S = 15.0
#: How often that wait looks whether the program is to end at once (s).
_LOOK_S = 0.2


class Alerts:
    """The sender of alerts, with one worker of its own: neither a slow endpoint nor a dead one holds the pipeline up.

    :param handler: makes the worker
    :param alert: where alerts go
    """

    def __init__(self, handler: Handler, alert: Alert) -> None:
        self._handler = handler
        self._alert = alert
        self._backoff = Backoff(_FIRST_MS, _MOST_MS, handler.random)
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
        while not self._worker.join(min(_LOOK_S, max(deadline - self._handler.now(), 0.0))):
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
