"""`BalancedConsumer`: the pause after an error, before its worker looks again whether it has to stop consuming."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka import BalancedConsumer
from pykafka.exceptions import ZooKeeperError


@pytest.mark.parametrize(
    ("consumes", "sure_s", "pause_s"), [(True, 60.0, 2.0), (True, 0.03, 0.03), (True, -1.0, 0.0), (False, -1.0, 2.0)]
)
def test_it_ends_when_partitions_have_to_be_given_up(consumes: bool, sure_s: float, pause_s: float) -> None:
    waited: list[float] = []

    def fail() -> bool:
        raise ZooKeeperError("no answer")

    stopping = SimpleNamespace(is_set=lambda: False, wait=waited.append)
    consumer: Any = SimpleNamespace(
        _stopping=stopping,
        _wanted=SimpleNamespace(is_set=lambda: True, set=lambda: None, clear=lambda: None),
        _handler=SimpleNamespace(now=lambda: 5.0),
        _check_interval_s=10.0,
        _check_at=0.0,
        _consumer=object() if consumes else None,
        _consumer_group="g",
        _cluster=SimpleNamespace(limiter=SimpleNamespace(warn=lambda *args, **kwargs: None)),
        _nodes=SimpleNamespace(session=SimpleNamespace(is_silent=True, lost="", sure_s=sure_s)),
        _group_options=SimpleNamespace(rebalance_backoff_ms=2000),
        _session_holds=fail,
    )
    assert BalancedConsumer._turn(consumer, stopping) is not None
    assert waited == [pause_s]
