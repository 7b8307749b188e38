"""`Watch`: one native worker a process, which reports partitions and messages that stand still, and hubs that are held.

It wakes once in one to five seconds, or each half second if there is a hub or loop. It holds no client alive: it knows
producers and consumers weakly, and ends with the last one. It reads what the engine keeps, and takes no lock of a handler: a
greenlet may hold that. A report is logged, and given to the client's listener, in a worker of the client's own hub or loop.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka import health
from pykafka.exceptions import WorkerNotStartedError
from pykafka.handlers import ThreadingHandler
from pykafka.handlers.interrupts import OwnedWorker
from pykafka.handlers.native import NativeHandler
from pykafka.handlers.whereabouts import Hold, HoldProbe
from pykafka.health.consumers import ConsumerView
from pykafka.health.producers import ProducerView
from pykafka.health.view import Held, Stalled
from pykafka.metrics.listener import HELD, MOVES, RELEASED, STALLED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pykafka.handlers import Handler
    from pykafka.health.explanation import Why
    from pykafka.health.view import View
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener

log = logging.getLogger(__name__)

#: The views of most clients, loaded with this module: a consumer that joins need not. Others come as `watching` asks for them.
VIEWS = ConsumerView, ProducerView
#: How often the worker looks (s).
PERIOD_S = 1.0
#: How often if stalls are reported after half a minute (s).
LONGEST_S = 5.0
#: How long it waits at least: a hub or loop is looked at twice in the time after which its hold is reported (s).
SHORTEST_S = 0.05


def _listener_of(subject: Any) -> ClientListener | None:
    """Return what hears of a producer's or consumer's stalls; None for nothing."""
    engine = getattr(subject, "_engine", None)
    # A group consumer of PyKafka 2 has no engine, and a listener once it has had partitions.
    found: ClientListener | None = getattr(subject, "_listener", None) if engine is None else engine.listener
    return found


class _Watched:
    """A producer or consumer that is watched.

    :param subject: held weakly
    :param cluster: of its client; held weakly, too
    """

    def __init__(self, subject: Any, cluster: BaseCluster) -> None:
        self._subject = weakref.ref(subject)
        self._cluster = weakref.ref(cluster)
        self.handler: Handler = cluster.handler
        self.threshold_s = cluster.metrics_settings.stall_report_ms / 1000
        self.hold_s = cluster.metrics_settings.hold_report_ms / 1000
        self._listener = _listener_of(subject)
        # {partition, or what names the whole: its stall, which was reported}
        self._reported: dict[object, Stalled] = {}
        # Why the whole stands still, and since when (s of the handler's clock).
        self._whole: tuple[Why, float] | None = None

    @property
    def is_gone(self) -> bool:
        """Whether it has stopped, the application has dropped it, or nothing runs any more on its event loop."""
        subject = self._subject()
        return subject is None or self._cluster() is None or self.handler.has_ended or not subject._is_running

    def look(self) -> None:
        """Report each new stall, and tell the listener which reasons have begun and ended."""
        subject, cluster = self._subject(), self._cluster()
        if subject is None or cluster is None:
            return
        self._listener = _listener_of(subject) or self._listener
        view: View = subject._view()  # also if no stall is reported: it takes a sample
        found = dict(view.stalls(self.threshold_s)) if self.threshold_s else {}
        if self.threshold_s and not found:
            found.update(self._look_at_whole(view))
        before, self._reported = self._reported, found
        for key, event in found.items():
            if key not in before:
                self.handler.native.say(_Report(cluster, event, self._listener))
            elif event.why is not before[key].why:
                self._say(tell, event)
        for key, event in before.items():
            if key not in found or found[key].why is not event.why:
                self._say(tell_moves, event)

    def end(self) -> None:
        """Tell the listener that nothing stands still any more: another one of this name counts on."""
        for event in self._reported.values():
            self._say(tell_moves, event)
        self._reported = {}

    def _say(self, call: Callable[[ClientListener | None, Stalled], None], event: Stalled) -> None:
        self.handler.native.say(partial(call, self._listener, event))

    def _look_at_whole(self, view: View) -> Iterable[tuple[object, Stalled]]:
        """Yield the stall of a producer or consumer as a whole, if it has lasted; what only a restart mends, at once."""
        reason, now = view.whole(), self.handler.now()
        if reason is None:
            self._whole = None
            return
        if self._whole is None or self._whole[0] is not reason.why:
            self._whole = reason.why, now
        seconds = now - self._whole[1]
        if seconds >= self.threshold_s or reason.restart_helps:
            yield reason.why, Stalled(view.name, "", -1, seconds, reason.why, str(reason))

    def notify(self, event: Held) -> None:
        """Report a hold of the hub or loop."""
        cluster = self._cluster()
        if cluster is not None:
            self.handler.native.say(_Report(cluster, event, cluster.listener))

    def release(self, seconds: float) -> None:
        """Tell the client's listener that a hold which was reported has ended; the hub or loop itself calls this."""
        cluster = self._cluster()
        if cluster is not None and cluster.listener is not None:
            cluster.listener.on_event(RELEASED, "hub or event loop", seconds)


class _Report:
    """A report to be made: `Handler.say` calls it.

    :param cluster: of the client
    :param event: what to report
    :param listener: hears of it, too
    """

    def __init__(self, cluster: BaseCluster, event: Stalled | Held, listener: ClientListener | None) -> None:
        self._cluster = cluster
        self._event = event
        self._listener = listener

    def __call__(self) -> None:
        cluster, event = self._cluster, self._event
        if isinstance(event, Stalled):
            text, what = "%s has stood still for %.0f s: %s", (event.about, event.seconds, event.text)
            cluster.limiter.warn(log, f"{event.subject} {event.topic} {event.why.value}", text, *what)
        else:
            text = "a call holds the hub or event loop for %.1f s or more, so nothing of this client runs there: %s"
            cluster.limiter.warn(log, event.stack, text, event.seconds, event.stack)
        tell(self._listener, event)


def tell(listener: ClientListener | None, event: Stalled | Held) -> None:
    """Give an event to a listener, if there is one: a stall to that of the producer or consumer, a hold to the client's."""
    if listener is None:
        return
    if isinstance(event, Stalled):
        listener.on_event(
            f"{STALLED} {event.why.value}", _about(event), event.seconds, f"{event.subject}: {event.text}"
        )
    else:
        listener.on_event(HELD, "hub or event loop", event.seconds, event.stack)


def tell_moves(listener: ClientListener | None, event: Stalled) -> None:
    """Tell a listener that what it has heard of stands still no longer, or for another reason."""
    if listener is not None:
        listener.on_event(f"{MOVES} {event.why.value}", _about(event))


def _about(event: Stalled) -> str:
    """Return the partition that stands still, or the name of a consumer that does as a whole."""
    return f"{event.topic}/{event.partition}" if event.topic else event.subject


class Watch:
    """The worker, and what it watches. `watch_of` returns that of a handler.

    State: `_watched` and `_probes` change by single steps, on any worker. The worker holds `_running` from its start until
    its end.

    :param native: the handler of the worker
    """

    def __init__(self, native: Handler) -> None:
        self._native = native
        self._watched: dict[int, _Watched] = {}
        self._probes: dict[int, HoldProbe] = {}
        # Those at which looking has failed, which was reported.
        self._failed: set[int] = set()
        # The clients that had something to watch: the worker ends with the last one.
        self._clusters: weakref.WeakSet[BaseCluster] = weakref.WeakSet()
        # What `pykafka.health` leaves for the worker; only of the shared one.
        self._inbox: deque[tuple[weakref.ref[Any], weakref.ref[BaseCluster]]] = deque()
        self._begin()
        native.at_fork(self._after_fork)

    def _begin(self) -> None:
        self._wake = self._native.Event()
        self._running = self._native.Lock()

    def _after_fork(self) -> None:
        # The worker is the parent's; consumers and producers come again when they start in the child.
        self._watched, self._probes, self._failed, self._clusters = {}, {}, set(), weakref.WeakSet()
        self._inbox.clear()
        self._close_inbox()
        self._begin()

    def add(self, subject: Any, cluster: BaseCluster) -> None:
        """Watch a producer or consumer. Call this in the thread of its hub or loop."""
        watched = _Watched(subject, cluster)
        if not watched.threshold_s and not (watched.hold_s and watched.handler.cooperative):
            return
        handler = watched.handler
        self._watched[id(subject)] = watched  # before its probe, which would be dropped
        if watched.hold_s and handler.cooperative and handler.native is not handler and handler.system_clock:
            self._probes.setdefault(id(handler), HoldProbe(handler))
        self._know(cluster)
        self._start()

    def _know(self, cluster: BaseCluster) -> None:
        self._clusters.add(cluster)
        cluster.at_end = self.hurry

    def _has_work(self) -> bool:
        """Return whether a client is open that had something to watch; one on a closed event loop is not."""
        open_ones = (one for one in list(self._clusters) if not one.closed and not one.handler.has_ended)
        return bool(self._inbox) or next(open_ones, None) is not None

    def hurry(self) -> None:
        """Look now: a producer or consumer has stopped, or a client was closed. The worker ends with the last client."""
        self._wake.set()

    def _close_inbox(self) -> None:
        if health._inboxes and health._inboxes[0] is self._inbox:
            health._inboxes.clear()

    def _take_inbox(self) -> None:
        while self._inbox:
            reference, of_cluster = self._inbox.popleft()
            subject, cluster = reference(), of_cluster()
            if subject is not None and cluster is not None:
                self._watched[id(subject)] = _Watched(subject, cluster)
                self._know(cluster)

    def held_by(self, handler: Handler) -> Hold | None:
        """Return the hold of a handler's hub or loop that lasts at present."""
        probe = self._probes.get(id(handler))
        return None if probe is None else probe.held

    def _start(self) -> None:
        if not self._running.acquire(False):
            return
        worker = None
        try:
            worker = OwnedWorker(self._native, partial(self._run, self._wake, self._running), "pykafka.Watch")
            worker.start()
        except WorkerNotStartedError as error:  # the next producer or consumer tries again
            self._running.release()
            log.info("stalls are not watched for at present: %s", error)
        except BaseException:  # an interrupt may come when the worker has begun, which releases it
            if worker is None or not worker.is_started:
                self._running.release()
            raise

    # -- the worker ------------------------------------------------------------------------------------------------

    def _run(self, wake: Any, running: Any) -> None:
        while True:
            try:
                if self in _shared:
                    health._inboxes[:] = [self._inbox]
                now = self._native.now
                looked_at = now()
                while self._has_work() and self._wake is wake:  # a fork makes another
                    pause, hub_pause = self._pauses()
                    is_hurried = wake.wait(max(min(looked_at + pause - now(), hub_pause), 0.0))
                    wake.clear()
                    self._take_inbox()
                    is_due = is_hurried or now() >= looked_at + pause
                    self.look(stalls=is_due)
                    looked_at = now() if is_due else looked_at
            finally:
                if self._wake is wake:
                    self._close_inbox()
                running.release()
            self._drop_probes()
            # also for what came before the inbox was closed
            if not self._has_work() or self._wake is not wake or not running.acquire(False):
                return

    def _pauses(self) -> tuple[float, float]:
        """Return how long to wait from one look at stalls to the next, and until the next look at hubs and loops (s)."""
        pause, hub_pause = LONGEST_S, LONGEST_S
        for watched in self._watched.copy().values():
            if watched.threshold_s:
                pause = min(pause, max(watched.threshold_s / 6, PERIOD_S))
            if watched.hold_s and id(watched.handler) in self._probes:
                hub_pause = min(hub_pause, max(watched.hold_s / 2, SHORTEST_S), PERIOD_S)
        return pause, hub_pause

    def look(self, stalls: bool = True) -> None:
        """Look at all that is watched, once; an error in one report does not end the others, and is logged once.

        :param stalls: False: at hubs and loops alone
        """
        held: set[int] = set()
        for number, watched in self._watched.copy().items():
            if watched.is_gone:
                self._watched.pop(number, None)
                watched.end()
                self._failed.discard(number)
                continue
            at_hub = partial(self._look_at_hub, watched, held)
            for step in (watched.look, at_hub) if stalls else (at_hub,):
                try:
                    step()
                except Exception as error:  # noqa: BLE001 - one that reports cannot do without must not end the worker
                    if number not in self._failed:
                        self._failed.add(number)
                        self._native.report("looking for stalls", error)
        self._drop_probes()

    def _drop_probes(self) -> None:
        """Forget the hubs and loops on which nothing is watched any more: they may have ended."""
        known = list(self._probes)  # first: `add` has put the watched ones of these there
        living = {id(watched.handler) for watched in self._watched.copy().values() if watched.hold_s}
        for number in known:
            if number not in living:
                self._probes.pop(number, None)

    def _look_at_hub(self, watched: _Watched, seen: set[int]) -> None:
        number = id(watched.handler)
        probe = self._probes.get(number)
        if probe is None or not watched.hold_s or number in seen:
            return
        seen.add(number)
        hold = probe.look(watched.hold_s, watched.release)
        if hold is not None:
            watched.notify(Held(hold.seconds, hold.stack))


#: Of handlers whose clock is not the system's (a simulation's), and of those that have no native threads beside them
#: (eventlet's).
_own: weakref.WeakKeyDictionary[Handler, Watch] = weakref.WeakKeyDictionary()
#: That of all other handlers.
_shared: list[Watch] = []


def watch_of(handler: Handler) -> Watch:
    """Return the watch for the clients of a handler: one for the process, or one for a handler with a clock of its own."""
    native = handler.native
    if not handler.system_clock or (handler.cooperative and native is handler):
        watch = _own.get(handler)
        if watch is None:
            watch = _own[handler] = Watch(native)
        return watch
    if not _shared:  # of no client's hub or loop: it outlives each of them
        plain = ThreadingHandler()
        _shared.append(Watch(NativeHandler(lambda say: say(), lambda fn: fn()) if plain.cooperative else plain))
    return _shared[0]


def held_by(handler: Handler) -> Hold | None:
    """Return the hold of a handler's hub or loop that lasts at present; None for none, and if it is not watched."""
    return _shared[0].held_by(handler) if _shared else None
