"""The errors of a producer in a process pool reach the process that asked for the work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pykafka import EmbeddedCluster

PROGRAM = """
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from pykafka import KafkaClient
from pykafka.exceptions import InvalidRecord, MessagesNotDelivered

def produce(hosts, kind):
    with KafkaClient(hosts) as client:
        with client.producer() if kind == "any" else client.topics["t"].get_producer() as producer:
            for value in (b"1", b"2"):
                topic = ("t",) if kind == "any" else ()
                key = {"key" if kind == "any" else "partition_key": b"k"}
                producer.produce(*topic, value, headers=[("a", b"b")], **key)

if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        error = pool.submit(produce, *sys.argv[1:]).exception(60)
    assert type(error) is MessagesNotDelivered, repr(error)
    assert "2 messages were not acknowledged" in str(error)
    assert error.topic == "t"
    assert [message.value for message, _ in error.failures] == [b"1", b"2"]
    for message, reason in error.failures:
        assert (message.key, message.headers, message.offset) == (b"k", [("a", b"b")], -1)
        assert message.error is reason
        assert type(reason) is InvalidRecord
    print("as expected")
"""


@pytest.mark.parametrize("kind", ["any", "one"])
def test_what_was_not_delivered_is_raised_with_its_messages(kind: str) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        cluster.inject_errors("Produce", "INVALID_RECORD", "INVALID_RECORD")
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, cluster.hosts, kind],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert ended.stdout == "as expected\n", ended.stderr
