"""The metrics of a pipeline, in the text format that Prometheus reads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pykafka.handlers.sockets import listen
from pykafka.spark.pipeline.errors import PipelineError
from pykafka.spark.pipeline.events import BATCH, ENDED, FAILED, LAG, RECOVERED, RESTARTING, STARTED, Event
from pykafka.spark.pipeline.operation import Address

if TYPE_CHECKING:
    from pykafka.handlers import Handler


#: The Content-Type of the text.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COUNTER, _GAUGE = "counter", "gauge"
#: Name behind the prefix, kind, and help, in the order of the text.
_FAMILIES = (
    ("up", _GAUGE, "1 while the pipeline runs, 0 while it waits for a restart or has ended."),
    ("failures_total", _COUNTER, "Failures of the pipeline."),
    ("restarts_total", _COUNTER, "Restarts after failures."),
    ("rows_total", _COUNTER, "Records read."),
    ("malformed_total", _COUNTER, "Records that could not be parsed."),
    ("dead_letters_total", _COUNTER, "Records written to the dead letters."),
    ("batches_total", _COUNTER, "Micro-batches with records."),
    ("batch_seconds_total", _COUNTER, "Time that micro-batches with records took."),
    ("last_batch_seconds", _GAUGE, "Time that the last micro-batch with records took."),
    ("last_batch_timestamp_seconds", _GAUGE, "When the last micro-batch with records ended, in seconds since 1970."),
    ("state_rows", _GAUGE, "Rows in the state of aggregates and joins."),
    ("state_bytes", _GAUGE, "Memory of the state of aggregates and joins."),
    ("lag", _GAUGE, "Records of a partition that were not read when the last micro-batch was planned."),
)
_PREFIX = "pykafka_pipeline_"
Labels = tuple[tuple[str, str], ...]

log = logging.getLogger("pykafka.spark.pipeline")

#: Maximum time of a request with its answer (s), and the interval of checks whether the server is to end (s).
REQUEST_S, _POLL_INTERVAL_S = 5.0, 0.5
#: The longest head of a request that is read (bytes).
_MOST_HEAD = 8192
_PATHS = (b"/metrics", b"/")
_RESOLVE_S = 10.0


class Metrics:
    """The numbers of one pipeline: its own worker adds events, and any worker renders them.

    :param pipeline: its name
    :param queries: names of its queries, whose numbers are there from the beginning
    :param handler: makes the lock
    """

    def __init__(self, pipeline: str, queries: tuple[str, ...], handler: Handler) -> None:
        self._lock = handler.Lock()
        self._all: Labels = (("pipeline", pipeline),)
        self._values: dict[str, dict[Labels, float]] = {name: {} for name, _, _ in _FAMILIES}
        for name in ("up", "failures_total", "restarts_total"):
            self._values[name][self._all] = 0
        for query in queries:
            for name in ("rows", "malformed", "dead_letters", "batches", "batch_seconds"):
                self._values[f"{name}_total"][self._of(query)] = 0

    def watch(self, event: Event) -> None:
        """Add an event."""
        with self._lock:
            if event.kind in (BATCH, LAG):
                self._take(event.facts, event.at_ms, is_new=event.kind == BATCH)
            elif event.kind in (STARTED, RECOVERED):
                self._values["up"][self._all] = 1
            elif event.kind in (FAILED, ENDED):
                self._values["up"][self._all] = 0
                self._values["failures_total"][self._all] += event.kind == FAILED
            elif event.kind == RESTARTING:
                self._values["restarts_total"][self._all] += 1

    def render(self) -> str:
        """Return the text."""
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines())

    def _of(self, query: str) -> Labels:
        return (*self._all, ("query", query))

    def _take(self, facts: Mapping[str, Any], at_ms: int, is_new: bool) -> None:
        labels, values = self._of(facts["query"]), self._values
        if is_new:
            took = facts["durations_ms"].get("triggerExecution", 0) / 1000
            for name, more in (
                ("rows", facts["rows"]),
                ("malformed", facts["malformed"]),
                ("dead_letters", facts["dead_letters"]),
                ("batches", 1),
                ("batch_seconds", took),
            ):
                family = values[f"{name}_total"]
                family[labels] = family.get(labels, 0) + more
            values["last_batch_seconds"][labels] = took
            values["last_batch_timestamp_seconds"][labels] = at_ms / 1000
        values["state_rows"][labels] = facts["state"]["rows"]
        values["state_bytes"][labels] = facts["state"]["bytes"]
        if facts["lags"]:
            # As a whole: a topic that is gone has no lag any more.
            kept = {key: lag for key, lag in values["lag"].items() if key[: len(labels)] != labels}
            for topic, partitions in facts["lags"].items():
                for partition, lag in partitions.items():
                    kept[*labels, ("topic", topic), ("partition", partition)] = lag
            values["lag"] = kept

    def _lines(self) -> Iterator[str]:
        for name, kind, text in _FAMILIES:
            if not self._values[name]:
                continue
            yield f"# HELP {_PREFIX}{name} {text}"
            yield f"# TYPE {_PREFIX}{name} {kind}"
            for labels, value in self._values[name].items():
                shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
                yield f"{_PREFIX}{name}{{{shown}}} {value:.17g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class TextServer:
    """A server of `GET /metrics` for the length of a `with` block, with one worker of its own that answers one by one.

    Each connection has a deadline as a whole, so a client that hangs delays others by seconds and no end at all. An error of
    `render` answers one request with status 500; a log line reports it once, until the next request is answered.

    :param handler: makes the socket and the worker
    :param address: where it listens
    :param kind: Content-Type of the text
    :param render: returns the text, in the server's worker
    :raises PipelineError: it cannot listen there
    """

    def __init__(self, handler: Handler, address: Address, kind: str, render: Callable[[], str]) -> None:
        self._handler = handler
        self._kind = kind
        self._render = render
        self._ending = handler.Event()
        self._failed = False
        self._listener = self._listen(address)
        host, port = self._listener.getsockname()[:2]
        #: Where it listens in fact.
        self.address = Address(host, port)
        self._worker = handler.spawn(self._serve, name="pykafka-metrics")

    def __enter__(self) -> TextServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._worker.join(REQUEST_S + 2 * _POLL_INTERVAL_S)
        self._listener.close()

    def _listen(self, address: Address) -> Any:
        try:
            found = self._handler.resolve(address.host, address.port, timeout=_RESOLVE_S)[0]
            return listen(self._handler, found)
        except OSError as error:
            why = error.strerror or error
            raise PipelineError(
                f"metrics cannot be served at {address}: {why}; choose another address, or end what has this one"
            ) from error

    def _serve(self) -> None:
        try:
            self._listener.settimeout(_POLL_INTERVAL_S)
            while not self._ending.is_set():
                self._serve_one()
        except BaseException as error:
            log.error("metrics are no longer served at %s: %s: %s", self.address, type(error).__name__, error)
            raise

    def _serve_one(self) -> None:
        """Answer the next connection, if one comes."""
        try:
            connection, _ = self._listener.accept()
        except TimeoutError:
            return
        except OSError:  # for instance if this process has no descriptor left
            self._ending.wait(_POLL_INTERVAL_S)
            return
        try:
            self._answer(connection)
        except OSError:  # the client's trouble
            return
        finally:
            connection.close()

    def _answer(self, connection: Any) -> None:
        deadline = self._handler.now() + REQUEST_S

        def bound() -> None:
            left = deadline - self._handler.now()
            if left <= 0 or self._ending.is_set():
                raise TimeoutError("the request took too long")
            connection.settimeout(min(left, _POLL_INTERVAL_S))

        head = b""
        while b"\r\n\r\n" not in head and len(head) < _MOST_HEAD:
            bound()
            try:
                part = connection.recv(_MOST_HEAD)
            except TimeoutError:
                continue
            if not part:
                return
            head += part
        status, text = self._response(head)
        lines = [
            f"HTTP/1.1 {status}",
            f"Content-Type: {self._kind}",
            f"Content-Length: {len(text)}",
            "Connection: close",
        ]
        answer = memoryview("\r\n".join([*lines, "", ""]).encode() + (b"" if head.startswith(b"HEAD ") else text))
        while answer:
            bound()
            try:
                answer = answer[connection.send(answer) :]
            except TimeoutError:
                continue

    def _response(self, head: bytes) -> tuple[str, bytes]:
        """Return status and body."""
        words = head.partition(b"\r\n")[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return "400 Bad Request", b"not HTTP/1.1\n"
        if words[0] not in (b"GET", b"HEAD"):
            return "405 Method Not Allowed", b"only GET\n"
        if words[1].partition(b"?")[0] not in _PATHS:
            return "404 Not Found", b"the metrics are at /metrics\n"
        try:
            text = self._render().encode()
        except Exception as error:  # noqa: BLE001 - of whatever it renders: the next request may find it well
            if not self._failed:
                log.error("metrics cannot be rendered for %s: %s: %s", self.address, type(error).__name__, error)
            self._failed = True
            return "500 Internal Server Error", b"the metrics cannot be rendered; the pipeline's log has the error\n"
        self._failed = False
        return "200 OK", text
