"""Messages that we write, read and written again by Kafka's own classes: the same bytes."""

from __future__ import annotations

import pytest

from pykafka.protocol import wire
from pykafka.protocol.schema import Message, Request, Response
from tests.java_judge.kafka_java import run_source
from tests.java_judge.schemas import RELEASES, describes, stable_versions
from tests.support.instances import Instances

PER_VERSION = 12


def kinds() -> list[type[Request[object]] | type[Response]]:
    return [getattr(wire, name) for name in wire.__all__]


@pytest.mark.kafka
@pytest.mark.parametrize("release", RELEASES)
def test_kafka_reads_what_we_write_and_we_read_it_again(release: str) -> None:
    written: list[tuple[Message, int, str]] = []
    message: Message
    instances = Instances(seed=42)
    for cls in kinds():
        if not describes(release, cls.__name__):  # it came with a later one
            continue
        versions = stable_versions(release, cls.__name__)
        kind = "request" if issubclass(cls, Request) else "response"
        for version in sorted(versions):
            for _ in range(PER_VERSION):
                message = instances.make(cls, version)
                line = f"{cls.api_key} {kind} {version} {message.encode(version).hex()}"
                written.append((message, version, line))
    printed = run_source("RoundTrip.java", release, "\n".join(line for _, _, line in written))
    # An empty body prints an empty line.
    again = printed.removesuffix("\n").split("\n")
    assert len(again) == len(written)
    for (message, version, line), theirs in zip(written, again, strict=True):
        assert theirs == line.split(" ")[3], (message, version)
        assert type(message).decode(bytes.fromhex(theirs), version) == message, version
