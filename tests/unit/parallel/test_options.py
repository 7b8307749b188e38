"""The options of parallel work stand once: `consumer.parallel()` agrees with its settings."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields

from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.parallel.options import ParallelOptions


def test_the_call_has_every_setting() -> None:
    parameters = inspect.signature(KafkaConsumer.parallel).parameters
    text = inspect.getdoc(KafkaConsumer.parallel) or ""
    found = re.findall(r"^:param (\w+): (.*?)(?=^:|\Z)", text, re.MULTILINE | re.DOTALL)
    meant = {name: " ".join(meaning.split()) for name, meaning in found}
    for one in fields(ParallelOptions):
        assert parameters[one.name].default == one.default
        assert meant[one.name] == one.metadata["meaning"]
    assert meant.keys() == parameters.keys() - {"self"}
