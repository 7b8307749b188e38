"""`FaultControls`: what a test does to make the next requests go wrong, and to see which there were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka.testing.arguments import function, whole
from pykafka.testing.controls import Controls
from pykafka.testing.faults import (
    PLACES,
    Cut,
    Failure,
    Fault,
    Hold,
    OnAnswer,
    OnRequest,
    Received,
    Throttle,
    When,
)
from pykafka.testing.names import ApiName, ErrorName, api_key, error_code


class FaultControls(Controls):
    """Faults, hooks, and the requests that came: a part of `FakeCluster`."""

    def fail(
        self,
        api: ApiName,
        error: ErrorName,
        times: int = 1,
        broker: int | None = None,
        when: When | None = None,
        latency_ms: int = 0,
    ) -> Fault:
        """Make the next requests of an API fail: they are not carried out, and their answers have an error.

        :param error: which; "NONE" lets a request pass, before those that are set up to fail later
        :param times: how many requests
        :param broker: at this one alone; None: at all
        :param when: for which requests; None: for all
        :param latency_ms: how much later they are answered (ms)
        """
        code = error_code(error)
        return self._outcome(Failure, api, broker, when, times, code=code, latency_ms=whole("latency_ms", latency_ms))

    def cut(
        self,
        api: ApiName,
        place: str = "before",
        times: int = 1,
        broker: int | None = None,
        when: When | None = None,
        latency_ms: int = 0,
    ) -> Fault:
        """Cut the connections of the next requests of an API.

        :param place: "before" the request is carried out, in the "middle" of its answer, or "after" it is carried out, without
            an answer
        :param latency_ms: how much later that happens (ms)
        """
        if place not in PLACES:
            raise ValueError(f"place is {place!r}: one of {', '.join(PLACES)}")
        return self._outcome(Cut, api, broker, when, times, place=place, latency_ms=whole("latency_ms", latency_ms))

    def _outcome(
        self, kind: Any, api: ApiName, broker: int | None, when: When | None, times: int, **more: Any
    ) -> Fault:
        fault: Fault = self._set_up(kind, api, broker, when, whole("times", times, 1), **more)
        return fault

    def _set_up(
        self, kind: Any, api: ApiName, broker: int | None, when: When | None, *arguments: Any, **more: Any
    ) -> Any:
        if broker is not None:
            self._broker(broker)
        if when is not None:
            function("when", when)
        fault = kind(self._state, api_key(api), broker, when, *arguments, **more)
        with self._locked():
            self._faults.add(fault)
        return fault

    def hold(self, api: ApiName, broker: int | None = None, when: When | None = None) -> Hold:
        """Hold the answers of an API back until `release` of what this returns; the requests are carried out before.

        with cluster.hold("Produce") as held:
            producer.produce("orders", b"one")
            held.await_met()
        """
        fault: Hold = self._set_up(Hold, api, broker, when)
        return fault

    def throttle(self, api: ApiName, milliseconds: int, broker: int | None = None, times: int | None = None) -> Fault:
        """Throttle an API: after an answer, which says so, a broker reads nothing from the connection for a time (KIP-219).

        :param milliseconds: for how long (ms)
        :param times: how many requests; None: until `end` of what this returns
        """
        count = None if times is None else whole("times", times, 1)
        fault: Fault = self._set_up(
            Throttle, api, broker, None, count, milliseconds=whole("milliseconds", milliseconds, 1)
        )
        return fault

    def latency(self, broker: int, milliseconds: int) -> None:
        """Delay the answers of a broker (ms); 0 ends that. As on a long line, requests may follow each other."""
        found = self._broker(broker)
        late_ms = whole("milliseconds", milliseconds)
        with self._locked():
            self._faults.latencies[found.node.node_id] = late_ms

    def pending(self, api: ApiName) -> list[Fault]:
        """Return what `fail` and `cut` have set up for requests of an API that have not come yet."""
        key = api_key(api)
        with self._locked():
            return [fault for fault in self._faults.outcomes if fault.key == key and fault.left]

    def clear_faults(self, api: ApiName | None = None) -> None:
        """End what `fail`, `cut`, `hold` and `throttle` have set up, of one API or of all."""
        key = None if api is None else api_key(api)
        with self._locked():
            faults = [one for one in (*self._faults.outcomes, *self._faults.conditions) if key in (None, one.key)]
        for fault in faults:
            if isinstance(fault, Hold):
                fault.release()
            else:
                fault.end()

    def on_request(self, fn: OnRequest) -> Callable[[], None]:
        """Call a function with each request (`Call`) before it is carried out, by the worker of its connection.

        :param fn: if it returns a response, the client gets that, and the request is not carried out; it may use the cluster
        :return: call it to end this
        """
        return self._hook(self._faults.on_request, fn)

    def on_answer(self, fn: OnAnswer) -> Callable[[], None]:
        """Call a function with each request and its response before that is sent, by the worker of the connection.

        :param fn: if it returns a response, the client gets that one; it may use the cluster
        :return: call it to end this
        """
        return self._hook(self._faults.on_answer, fn)

    def _hook(self, hooks: list[Any], fn: Any) -> Callable[[], None]:
        function("fn", fn)
        with self._locked() as state:
            hooks.append(fn)
        lock = state.lock

        def end() -> None:
            with lock:
                if fn in hooks:
                    hooks.remove(fn)

        return end

    # What was received

    def track_requests(self) -> None:
        """Start to record requests; drop those recorded before."""
        with self._locked():
            self._faults.received = []

    def untrack_requests(self) -> None:
        """Stop to record requests, and drop those recorded."""
        with self._locked():
            self._faults.received = None

    def requests(self, api: ApiName | None = None) -> list[Received]:
        """Return the requests since `track_requests`, in the order of their arrival; those of one API if it is given."""
        key = None if api is None else api_key(api)
        with self._locked():
            return [one for one in self._faults.received or () if key in (None, one.api_key)]
