"""Many workers of a forked child, and of its child, use at once what was made before the fork."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from tests.support.forking import WORKERS

NAMES = [
    "sync producer",
    "producer",
    "producer by with",
    "producer of any topic",
    "simple consumer",
    "consumer",
    "metadata",
    "cluster",
]
#: As gunicorn's gevent workers with --preload, whose parent's threads are greenlets that the child has copies of.
PATCHED = """
import sys
from gevent import monkey
monkey.patch_all()
from tests.support.forking import main
main(*sys.argv[1:])
"""


@pytest.mark.parametrize("held", [False, True], ids=["free", "locks-held"])
@pytest.mark.parametrize("mode", ["threads", "greenlets", "patched"])
def test_many_workers_at_once_use_what_was_made_before_the_fork(
    embedded: EmbeddedCluster, mode: str, held: bool
) -> None:
    """`locks-held`: while other workers of the parent hold every lock of the client, as some may at any fork."""
    embedded.create_topic("t", partitions=6)
    with KafkaClient(embedded.hosts) as client, client.topics["t"].get_producer(linger_ms=0) as producer:
        for number in range(200):
            producer.produce(b"%d" % number)
        producer.flush()
    arguments = [embedded.hosts, "t", mode, *(["held"] if held else [])]
    program = ["-c", PATCHED] if mode == "patched" else ["-m", "tests.support.forking"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", *program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    calls = {name: 2 if name == "consumer" else 2 * WORKERS for name in NAMES}
    assert sorted(lines[:-1]) == sorted(f"{depth} {calls[name]} {name}: done" for depth in (1, 2) for name in NAMES)
    assert int(lines[-1].split()[0]) > 50 if held else lines[-1] == "0 locks were held"
