"""The ready-made serializers against those of Kafka's Java client."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka import serialization
from tests.java_judge.kafka_java import run_source
from tests.java_judge.schemas import RELEASES

VALUES: dict[str, list[Any]] = {
    "String": ["", "a", "Zoë €", "\U0001f600"],
    "Short": [0, -1, 2**15 - 1, -(2**15)],
    "Integer": [0, -1, 2**31 - 1, -(2**31)],
    "Long": [0, -1, 2**63 - 1, -(2**63)],
    "Float": [0.0, -1.5, 0.25],
    "Double": [0.0, -1.5, 0.1, 1.7976931348623157e308],
    "Boolean": [True, False],
    "Uuid": [UUID(int=0), UUID("123e4567-e89b-12d3-a456-426614174000")],
}
#: How Java writes a value, where that is not as Python does.
JAVA: dict[Any, str] = {1.7976931348623157e308: "1.7976931348623157E308"}


@pytest.mark.kafka
def test_kafka_reads_and_writes_the_same_bytes() -> None:
    asked = [
        (kind, value, getattr(serialization, f"{kind}Serializer")()(value))
        for kind, values in VALUES.items()
        for value in values
    ]
    printed = run_source("Serializers.java", RELEASES[0], "\n".join(f"{kind} {data.hex()}" for kind, _, data in asked))
    answers = [line.split(" ") for line in printed.removesuffix("\n").split("\n")]
    for (kind, value, data), (text, again) in zip(asked, answers, strict=True):
        shown = str(value).lower() if kind == "Boolean" else JAVA.get(value, str(value))
        assert (bytes.fromhex(text).decode(), bytes.fromhex(again)) == (shown, data), kind
        assert getattr(serialization, f"{kind}Deserializer")()(data) == value
