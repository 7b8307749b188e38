"""Run a real Kafka by hand: prints its hosts, ends on Ctrl-C, SIGTERM, or when standard input closes."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from select import select

from tests.brokers import LATEST, BrokerSetupError, KafkaCluster


def main() -> int:
    """Start the brokers of the command line, wait, and stop them."""
    parser = argparse.ArgumentParser(prog="python -m tests.brokers", description=__doc__)
    parser.add_argument("--version", default=LATEST)
    parser.add_argument("--brokers", type=int, default=1, metavar="N")
    parser.add_argument("--tls", action="store_true", help="print TLS hosts in the second line")
    parser.add_argument("--heap", type=int, default=512, metavar="MB")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="may be repeated")
    options = parser.parse_args()
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    config = dict(item.split("=", 1) for item in options.config)
    try:
        with KafkaCluster(options.version, options.brokers, config, options.tls, options.heap) as kafka:
            print(kafka.hosts, flush=True)
            if options.tls:
                print(kafka.tls_hosts, flush=True)
            while True:
                ready, _, _ = select([sys.stdin, awake], [], [])
                if awake in ready or not os.read(sys.stdin.fileno(), 4096):
                    return 0
    except (BrokerSetupError, ValueError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
