"""The program `python -m pykafka.embedded`, which runs a cluster by hand."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterable

from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import KafkaException


def main(arguments: Iterable[str] | None = None) -> int:
    """Print the hosts of a new cluster, and run it until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m pykafka.embedded", description=main.__doc__)
    parser.add_argument("--brokers", type=int, default=3, metavar="N")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME[:PARTITIONS]", help="may be repeated")
    options = parser.parse_args(None if arguments is None else list(arguments))
    topics = {}
    for text in options.topic:
        name, _, partitions = text.partition(":")
        topics[name] = int(partitions or 4)
    # Blocked before the cluster's threads start, so that none of them takes the signal instead of sigwait().
    awaited = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        with EmbeddedCluster(options.brokers, topics) as cluster:
            print(cluster.hosts, flush=True)
            signal.sigwait(awaited)
    except (ValueError, KafkaException) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
