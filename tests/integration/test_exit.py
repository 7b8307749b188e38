"""The end of the interpreter: what is queued still goes out, or is named in the log; no hang either way."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic

SCRIPT = """
import logging, sys
from pykafka import KafkaClient
logging.basicConfig(format="%(levelname)s %(message)s", level=logging.ERROR)
hosts, topic, greenlets = sys.argv[1:]
client = KafkaClient(hosts, use_greenlets=greenlets == "greenlets")
producer = client.topics[topic].get_producer()
consumer = client.topics[topic].get_simple_consumer()
for number in range(100):
    producer.produce(b"%d" % number)
"""


@pytest.mark.parametrize("mode", ["threads", "greenlets"])
def test_a_script_that_forgets_to_stop_loses_nothing(kafka: KafkaCluster, mode: str) -> None:
    with KafkaClient(kafka.hosts) as client:
        topic = create_topic(client)
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, kafka.hosts, topic.name, mode],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert time.monotonic() - start < 30
        assert topic.latest_available_offsets()[0].offset == [100]
