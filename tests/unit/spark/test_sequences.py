"""The sink's producer ids, and what is said where the brokers give none."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.handlers import Handler
from pykafka.protocol import wire
from pykafka.spark.sequences import Sequences
from tests.support import scripted
from tests.support.scripted import ScriptedBroker


def test_brokers_that_may_store_rows_twice_are_a_warning(
    handler: Handler, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It stood nowhere that a batch is sent again without a number, and its rows may be stored twice."""
    with ScriptedBroker() as broker, KafkaClient(broker.hosts, handler=handler) as client:
        sequences = Sequences(client.cluster)
        for _ in range(2):
            sequences.begin(handler.now() + 10)
        assert not sequences.numbered
    assert (caplog.text + capsys.readouterr().err).count("its rows may be stored twice") == 1


def test_brokers_that_number_are_none(
    handler: Handler, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(scripted.VERSIONS, wire.InitProducerIdRequest, 0)
    monkeypatch.setattr(
        ScriptedBroker, "_fetch", lambda *_: wire.InitProducerIdResponse(producer_id=7, producer_epoch=0)
    )
    with ScriptedBroker() as broker, KafkaClient(broker.hosts, handler=handler) as client:
        sequences = Sequences(client.cluster)
        sequences.begin(handler.now() + 10)
        assert sequences.numbered
    assert "stored twice" not in caplog.text
