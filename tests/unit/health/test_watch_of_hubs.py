"""Two clients on one hub, of which one reports no holds: the watch looks at the hub for the other one alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.handlers.whereabouts import Hold
from pykafka.health import watch as module
from pykafka.health.watch import Watch


class Probe:
    """A probe that finds a hold if the threshold is at most 3 s."""

    def __init__(self) -> None:
        self.thresholds: list[float] = []

    def look(self, threshold_s: float, on_release: Any) -> Hold | None:
        self.thresholds.append(threshold_s)
        return Hold(3.0, "f") if threshold_s <= 3.0 else None


@pytest.mark.parametrize("reversed_", [False, True])
def test_a_client_that_reports_no_holds_changes_nothing_for_the_other(reversed_: bool) -> None:
    hub, told, probe = SimpleNamespace(), [], Probe()

    def watched(hold_s: float) -> Any:
        return SimpleNamespace(
            handler=hub,
            hold_s=hold_s,
            threshold_s=0.0,
            is_gone=False,
            notify=lambda event: told.append((hold_s, event.seconds)),
            release=float,
        )

    watch = Watch(ThreadingHandler())
    both = [watched(0.0), watched(2.0)]
    watch._watched = dict(enumerate(reversed(both) if reversed_ else both))
    probes: Any = {id(hub): probe}
    watch._probes = probes
    assert watch._pauses() == (module.LONGEST_S, 1.0)
    watch.look(stalls=False)
    assert probe.thresholds == [2.0]
    assert told == [(2.0, 3.0)]
    watch._watched = {0: watched(0.0)}
    watch.look(stalls=False)
    assert watch._pauses() == (module.LONGEST_S, module.LONGEST_S)
    assert probe.thresholds == [2.0]
    assert not watch._probes
