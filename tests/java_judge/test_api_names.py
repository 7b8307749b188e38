"""The names of APIs against Kafka's own descriptions of their requests, also of those that this client never calls."""

from __future__ import annotations

import json
import zipfile

import pytest

from pykafka.protocol import wire
from pykafka.protocol.api_names import API_NAMES, name_of
from pykafka.protocol.schema import Request
from tests.brokers import maven_jar
from tests.java_judge.schemas import RELEASES


@pytest.mark.kafka
def test_each_api_has_the_name_that_kafka_gives_it() -> None:
    theirs: dict[int, str] = {}
    with zipfile.ZipFile(maven_jar(f"org.apache.kafka:kafka-clients:{RELEASES[0]}")) as archive:
        for path in archive.namelist():
            if path.startswith("common/message/") and path.endswith("Request.json"):
                lines = archive.read(path).decode().splitlines()
                found = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
                theirs[found["apiKey"]] = found["name"].removesuffix("Request")
    assert dict(enumerate(API_NAMES)) == theirs


def test_a_request_is_named_as_its_api() -> None:
    requests = [getattr(wire, name) for name in wire.__all__ if issubclass(getattr(wire, name), Request)]
    assert {name_of(one.api_key) for one in requests} == {one.__name__.removesuffix("Request") for one in requests}
    assert (name_of(93), name_of(94)) == ("StreamsGroupTopologyDescriptionUpdate", "UnregisterController")
    assert (name_of(4000), name_of(-1)) == ("API 4000", "API -1")
