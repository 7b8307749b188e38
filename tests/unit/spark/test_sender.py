"""The sink's producer ids, and what is said where the brokers give none."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.handlers import Handler
from pykafka.protocol import wire
from pykafka.protocol.records import RecordBatchBuilder
from pykafka.spark.options import write_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.sender import BatchSender
from tests.support import scripted
from tests.support.scripted import TOPIC, ScriptedBroker


def write_two_tasks(broker: ScriptedBroker, handler: Handler) -> None:
    """Write a row in each of two tasks of this process."""
    options = write_options({"kafka.bootstrap.servers": broker.hosts, "topic": TOPIC}, Mode.BATCH_WRITE)
    with KafkaClient(broker.hosts, handler=handler) as client:
        for _ in range(2):
            builder = RecordBatchBuilder()
            builder.append(-1, None, b"x", None)
            sender = BatchSender(client.cluster, options)
            sender.submit(TOPIC, 0, builder)
            sender.finish()
            assert sender.acknowledged == {TOPIC: 1}


def test_brokers_that_may_store_rows_twice_are_a_warning(
    handler: Handler, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It stood nowhere that a batch is sent again without a number, and its rows may be stored twice."""
    with ScriptedBroker() as broker:
        write_two_tasks(broker, handler)
    assert (caplog.text + capsys.readouterr().err).count("its rows may be stored twice") == 1


def test_brokers_that_number_are_none(
    handler: Handler,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    def give(*arguments: object) -> wire.InitProducerIdResponse:
        asked.append(arguments)
        return wire.InitProducerIdResponse(producer_id=7, producer_epoch=0)

    monkeypatch.setitem(scripted.VERSIONS, wire.InitProducerIdRequest, 0)
    monkeypatch.setattr(ScriptedBroker, "_fetch", give)
    with ScriptedBroker() as broker:
        write_two_tasks(broker, handler)
    assert len(asked) == 1  # the second task continues under the id of the first
    assert "stored twice" not in caplog.text + capsys.readouterr().err
