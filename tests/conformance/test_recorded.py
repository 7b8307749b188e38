"""Real brokers answer as it was recorded: what the fake cluster is held to is true."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import KafkaCluster
from tests.conformance.programs import PROGRAMS
from tests.conformance.recorded import broker_settings, differences, needs_acls, read
from tests.conformance.speaker import run
from tests.support.features import KAFKA_VERSION

pytestmark = [pytest.mark.kafka, pytest.mark.matrix]


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Yield a broker of the release, with the settings that it was recorded with."""
    with KafkaCluster(KAFKA_VERSION, config=broker_settings(KAFKA_VERSION, request.param)) as cluster:
        yield cluster


@pytest.mark.parametrize(("program", "broker"), [(name, needs_acls(name)) for name in PROGRAMS], indirect=["broker"])
def test_broker_answers_as_recorded(broker: KafkaCluster, program: str) -> None:
    """Each program of requests gets the answers that are recorded for the release."""
    found = run(PROGRAMS[program], broker.hosts, broker.release.numbers)
    assert differences(read(KAFKA_VERSION)[program], found) == []
