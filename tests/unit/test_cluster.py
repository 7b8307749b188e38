"""`Cluster` by itself: what it asks for, and how often."""

from __future__ import annotations

import subprocess
import sys

from tests.scripted import TOPIC, ScriptedBroker

ALONE = """
import sys
from pykafka.cluster import Cluster
from pykafka.handlers import ThreadingHandler
cluster = Cluster(sys.argv[1], ThreadingHandler())
print(cluster.topics[sys.argv[2]].name)
cluster.close()
"""


def test_a_cluster_imported_alone_makes_topics() -> None:
    """It ended in a RecursionError, as nothing had said what to make topics of."""
    with ScriptedBroker() as broker:
        asked = [sys.executable, "-c", ALONE, broker.hosts, TOPIC]
        result = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert (result.stdout.strip(), result.stderr) == (TOPIC, "")
