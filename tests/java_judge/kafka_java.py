"""Small Java programs, run against the jar of Kafka's own client."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.brokers import classpath
from tests.brokers.archives import compiled
from tests.brokers.jars import java

_HERE = Path(__file__).parent
_TIMEOUT_S = 100
#: What runs for a second gains nothing from the second compiler, nor from a collector with threads.
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


def run_source(name: str, release: str, text: str = "") -> str:
    """Run a Java source file of this directory and return what it prints.

    :param name: of the file
    :param release: of the kafka-clients it is run against
    :param text: its standard input
    """
    jars = classpath((f"org.apache.kafka:kafka-clients:{release}",))
    path = os.pathsep.join([os.path.join(jars, "*"), str(compiled(_HERE / name, jars))])
    done = subprocess.run(
        [java(), *_QUICK, "-cp", path, Path(name).stem],
        input=text,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
