"""The client id reaches brokers from the first request on."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from tests.support.scripted import ScriptedBroker


@pytest.mark.parametrize(("given", "told"), [({}, "pykafka"), ({"client_id": "night-job"}, "night-job")])
def test_client_id(given: dict[str, Any], told: str) -> None:
    with ScriptedBroker() as broker, KafkaClient(broker.hosts, **given):
        pass
    assert broker.client_ids == {told}
