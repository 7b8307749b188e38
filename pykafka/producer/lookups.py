"""`LookUps`: one look-up of a topic for all callers that write to it, in a caller's worker or in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pykafka.exceptions import (
    KafkaException,
    LeaderNotFoundError,
    NoBrokersAvailableError,
    ProtocolClientError,
    ResponseTimeoutError,
    TopicNotFoundError,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from pykafka.handlers import Handler, Worker
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.producer.accumulator import Route

#: How long metadata must have lacked a topic that was written to before it counts as deleted (s).
GONE_S = 3.0

#: Callers that may wait less than this (s) have a worker look the topic up, which goes on when they give up.
SHORT_S = 1.0
#: How long that worker asks (s).
BACKGROUND_S = 30.0
#: How often waiting callers look whether the producer was stopped (s).
LOOK_S = 1.0
#: Who has less time than this left (s) takes another caller's failure for its own.
LEAST_S = 0.1
#: How long closing waits for look-ups in the background, which end when their request does (s).
JOIN_S = 1.0
#: What another try may mend.
PASSING = (NoBrokersAvailableError, ResponseTimeoutError, LeaderNotFoundError)


class Engine(Protocol):
    """The producer whose topics these are; `AnyTopicEngine` has it."""

    handler: Handler
    cluster: BaseCluster

    def check_running(self) -> None: ...
    def take_in(self, topic: Any) -> Route | None: ...
    def written_to(self, topic: str) -> bool: ...  # whether a route of it is known


class _LookUp:
    """A look-up under way.

    :param handler: makes the event of those that wait for it
    """

    __slots__ = ("done", "ended", "error", "worker")

    def __init__(self, handler: Handler) -> None:
        self.ended = handler.Event()
        self.done = False
        self.error: Exception | None = None
        self.worker: Worker | None = None


class LookUps:
    """The look-ups of a producer that are under way, one a topic; all that wait for one wake together.

    State: `_under_way` and `_failed` change by single steps of a dict, which are atomic.

    :param engine: of the producer
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._handler = engine.handler
        self._under_way: dict[str, _LookUp] = {}
        # Why a look-up in the background has failed, until a caller was told.
        self._failed: dict[str, Exception] = {}

    def find(self, topic: str, deadline: float, wait_s: float) -> None:
        """Look a topic up, or wait for the caller or worker that does; the topic may still be unknown afterwards.

        :param deadline: until when to wait (s of the handler's clock)
        :param wait_s: how long callers of this producer may wait
        :raises KafkaException: why the topic was not found
        """
        one = _LookUp(self._handler)
        background = wait_s < SHORT_S
        try:  # around all of it: Ctrl-C must not leave a look-up behind that nobody does
            first = self._under_way.setdefault(topic, one)
            if first is one:
                if not background:
                    self._look_up(topic, deadline)
                    return
                one.worker = self._handler.spawn(self._run, topic, one, name=f"pykafka.look_up.{topic}")
        except BaseException as error:
            one.error = error if isinstance(error, KafkaException) else None
            self._end(topic, one)
            raise
        finally:
            if one.worker is None:
                self._end(topic, one)
        failed = self._failed.pop(topic, None)
        if failed is not None:
            raise _anew(failed)
        self._wait(topic, first, deadline)

    def _wait(self, topic: str, first: _LookUp, deadline: float) -> None:
        while not first.done:
            self._engine.check_running()
            left = deadline - self._handler.now()
            if left <= 0:
                raise NoBrokersAvailableError(
                    "no broker has told of the topic within max_block_ms; it is being asked for: produce again",
                    topic=topic,
                )
            first.ended.wait(min(left, LOOK_S))
            if first.worker is not None and not first.worker.is_alive():
                self._end(topic, first)  # it was ended from outside, maybe before it began
        error = first.error
        if error is None or (isinstance(error, PASSING) and deadline - self._handler.now() > LEAST_S):
            return  # found, cut off, or worth another try
        self._failed.pop(topic, None)
        raise _anew(error)

    def _run(self, topic: str, one: _LookUp) -> None:
        """Look a topic up in the background; the main function of a worker."""
        try:
            self._look_up(topic, self._handler.now() + BACKGROUND_S)
        except KafkaException as error:
            one.error = self._failed[topic] = error
        except Exception as error:
            one.error = self._failed[topic] = error
            raise  # the handler reports it
        finally:
            self._end(topic, one)

    def _end(self, topic: str, one: _LookUp) -> None:
        if self._under_way.get(topic) is one:
            del self._under_way[topic]
        one.done = True
        one.ended.set()

    def close(self) -> None:
        """End the look-ups in the background, where the handler can; they end by themselves otherwise."""
        workers = [one.worker for one in list(self._under_way.values()) if one.worker is not None]
        for worker in workers:
            worker.interrupt()
        for worker in workers:
            worker.join(JOIN_S)

    def _look_up(self, topic: str, deadline: float) -> None:
        """Ask the cluster for a topic, and take it in; errors as of `KafkaProducer.produce`."""
        engine, cluster, now = self._engine, self._engine.cluster, self._handler.now
        began, failures = now(), 0
        while True:
            left_ms = max(1, int((deadline - now()) * 1000))
            try:
                route = engine.take_in(cluster.topics.look_up(topic, left_ms))
                if route is None or route.queues:
                    return
                cluster.refresh(cluster.generation, [topic], left_ms)
                last: KafkaException = LeaderNotFoundError("the topic has no partitions yet", topic=topic)
            except TopicNotFoundError as error:
                cause = error.__cause__
                if isinstance(cause, ProtocolClientError) and not isinstance(cause, UnknownTopicOrPartition):
                    raise cause.with_context(topic=topic) from None  # as a denial by ACL
                if not engine.written_to(topic) or now() - began > GONE_S:
                    raise
                last = error
            except PASSING as error:
                last = error
            failures += 1
            pause = cluster.retry_backoff.seconds(failures)
            if now() + pause >= deadline:
                raise last
            self._handler.sleep(pause)
            engine.check_running()


def _anew(error: Exception) -> Exception:
    return error.again() if isinstance(error, KafkaException) else error
