"""Stalls of a hub: a ticker sleeps 1 ms and measures how late it wakes, with and without load in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from benchmarks.job import quantile

#: Bare and loaded stretches take turns, so that both meet the same machine.
ROUNDS = 4
STRETCH_S = 1.5
TICK_S = 0.001


class Gate:
    """A gate that tells a load when to pause."""

    def __init__(self) -> None:
        self.closed = False


class Stalls:
    """The overshoots of both kinds of stretches, and the work done meanwhile."""

    def __init__(self) -> None:
        self.bare: list[float] = []
        self.loaded: list[float] = []
        self.done = 0
        self.seconds = 0.0

    def measures(self) -> dict[str, float]:
        """Return milliseconds: the ticker's own, under load, and the difference."""
        found: dict[str, float] = {"rate": self.done / self.seconds}
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
            bare, loaded = (1000 * quantile(values, share) for values in (self.bare, self.loaded))
            found |= {f"bare_{name}_ms": bare, f"loaded_{name}_ms": loaded, f"stall_{name}_ms": loaded - bare}
        found["stall_max_ms"] = 1000 * max(self.loaded)
        return found


def gevent_stalls(flood: Callable[[Gate], int]) -> dict[str, float]:
    """Measure the stalls of gevent's hub while `flood(gate)` works in a greenlet.

    :param flood: works until the gate is closed; returns how many messages it did
    """
    import gevent

    def tick(gate: Gate, overshoots: list[float]) -> None:
        while not gate.closed:
            before = time.perf_counter()
            gevent.sleep(TICK_S)
            overshoots.append(time.perf_counter() - before - TICK_S)

    def stretch(overshoots: list[float], work: bool) -> None:
        gate, start = Gate(), time.perf_counter()
        ticker = gevent.spawn(tick, gate, overshoots)
        worker = gevent.spawn(flood, gate) if work else None
        gevent.sleep(STRETCH_S)
        gate.closed = True
        if worker is not None:
            stalls.done += worker.get()
            stalls.seconds += time.perf_counter() - start
        ticker.join()

    stalls = Stalls()
    for _ in range(ROUNDS):
        stretch(stalls.bare, work=False)
        stretch(stalls.loaded, work=True)
    return stalls.measures()


async def asyncio_stalls(flood: Callable[[Gate], Awaitable[int]]) -> dict[str, float]:
    """Measure the stalls of asyncio's loop, as `gevent_stalls` does those of gevent's hub."""

    async def tick(gate: Gate, overshoots: list[float]) -> None:
        while not gate.closed:
            before = time.perf_counter()
            await asyncio.sleep(TICK_S)
            overshoots.append(time.perf_counter() - before - TICK_S)

    async def stretch(overshoots: list[float], work: bool) -> None:
        gate, start = Gate(), time.perf_counter()
        ticker = asyncio.ensure_future(tick(gate, overshoots))
        worker = asyncio.ensure_future(flood(gate)) if work else None
        await asyncio.sleep(STRETCH_S)
        gate.closed = True
        if worker is not None:
            stalls.done += await worker
            stalls.seconds += time.perf_counter() - start
        await ticker

    stalls = Stalls()
    for _ in range(ROUNDS):
        await stretch(stalls.bare, work=False)
        await stretch(stalls.loaded, work=True)
    return stalls.measures()
