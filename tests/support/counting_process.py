"""A process with a collector whose figures other processes show, too: python -m tests.support.counting_process DIRECTORY SENT

It answers a line "scrape" with a line of JSON, and counts one more record at a line "count". At "full" it cannot write to
files any more, until a line "space".
"""

from __future__ import annotations

import json
import resource
import sys

from pykafka.metrics.metric import COUNTER, Metric
from pykafka.prometheus import KafkaCollector
from tests.support.some_metrics import HasSome, metric


def main() -> None:
    """Answer until the input ends."""
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    directory, sent = sys.argv[1], int(sys.argv[2])

    def read() -> list[Metric]:
        return [
            metric("producer-metrics", "record-send-total", sent, COUNTER),
            metric("producer-metrics", "connection-count", 1),
        ]

    client = HasSome(read=read)
    collector = KafkaCollector(client, directory=directory, write_interval_ms=60_000)
    list(collector.collect())
    print("ready", flush=True)
    for line in sys.stdin:
        if line == "count\n":
            sent += 1
        elif line in ("full\n", "space\n"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (0 if line == "full\n" else most, most))
        else:
            found = {sample.name: sample.value for family in collector.collect() for sample in family.samples}
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
