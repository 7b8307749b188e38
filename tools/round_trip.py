"""Send one message to an embedded cluster and read it again, on threads and on greenlets, with the installed package.

`python -P tools/round_trip.py compiled` (or `pure`) fails where the other form of the modules is loaded. `make dist` runs it
in clean environments, and cibuildwheel does in each that it builds for.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.resources import files

import pykafka
from pykafka import KafkaClient, compiled
from pykafka.embedded import EmbeddedCluster


def check_installed() -> None:
    """Raise unless the package comes from this environment, whole."""
    home = os.path.dirname(pykafka.__file__)
    assert home.startswith(sys.prefix), f"{home} is not in {sys.prefix}"
    assert files("pykafka").joinpath("py.typed").is_file()
    assert str(importlib.import_module("pykafka.handlers").__file__).startswith(home)
    assert importlib.util.find_spec("pyspark_pykafka") is not None


def go_round(use_greenlets: bool) -> None:
    """Send a message there and read it back."""
    with (
        EmbeddedCluster(brokers=1, topics={"dist": 1}) as cluster,
        KafkaClient(hosts=cluster.hosts, use_greenlets=use_greenlets) as client,
    ):
        topic = client.topics["dist"]
        with topic.get_producer(linger_ms=1) as producer:
            producer.produce(b"there and back", partition_key=b"k")
        consumer = topic.get_simple_consumer(consumer_timeout_ms=10000)
        message = consumer.consume()
        assert message is not None, "nothing came back within 10 s"
        assert message.value == b"there and back", message
        consumer.stop()


def main(form: str) -> None:
    """Check, go round twice, and tell which modules were loaded."""
    check_installed()
    for use_greenlets in (False, True):
        go_round(use_greenlets)
    loaded = compiled.compiled_modules()
    assert bool(loaded) == (form == "compiled"), f"{form} was wanted; compiled: {loaded}"
    print(f"ok: pykafka {pykafka.__version__}, {form}, {len(loaded)} compiled modules loaded")


if __name__ == "__main__":
    main(sys.argv[1])
