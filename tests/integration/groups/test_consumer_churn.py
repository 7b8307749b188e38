"""Groups of consumers under churn: at rest each partition has one owner, and nobody commits what he has lost."""

from __future__ import annotations

import os
from typing import Any

import pytest

from pykafka import KafkaClient
from tests.support.churn import Chances, Churn

pytestmark = [pytest.mark.kafka, pytest.mark.needs("static"), pytest.mark.timeout(900)]

#: Of the long form, for each assignor and handler: a thousand of each assignor in all.
REBALANCES = int(os.environ.get("REBALANCES", "500"))
QUICK: dict[str, Any] = {"heartbeat_interval_ms": 100, "session_timeout_ms": 6000, "max_poll_interval_ms": 6000}


@pytest.mark.later("threads-cooperative", "greenlets-range")
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_churn(client: KafkaClient, assignor: str) -> None:
    """In short: without what only the end of a session brings to light."""
    Churn(client, 1, Chances(0, 0.3, 0, 0), assignor=assignor, **QUICK).run(15)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_churn_for_long(client: KafkaClient, assignor: str, record_property: Any) -> None:
    churn = Churn(client, 4, assignor=assignor, **QUICK)
    try:
        churn.run(REBALANCES)
    finally:
        record_property("churn", churn.report())
        print(churn.report())
