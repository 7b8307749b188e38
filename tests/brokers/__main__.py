"""Run a real Kafka by hand: prints its hosts, ends on Ctrl-C, SIGTERM, or when standard input closes."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from select import select

from tests.brokers import LATEST, BrokerSetupError, KafkaCluster, Sasl


def main() -> int:
    """Start the brokers of the command line, wait, and stop them."""
    parser = argparse.ArgumentParser(prog="python -m tests.brokers", description=__doc__)
    parser.add_argument("--version", default=LATEST)
    parser.add_argument("--brokers", type=int, default=1, metavar="N")
    parser.add_argument("--tls", action="store_true", help="print TLS hosts in the second line")
    parser.add_argument(
        "--sasl", action="store_true", help="further listeners ask for SASL; print each, users, and a token of a day"
    )
    parser.add_argument("--heap", type=int, default=512, metavar="MB")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="may be repeated")
    options = parser.parse_args()
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    sasl = Sasl() if options.sasl else None
    config = dict(item.split("=", 1) for item in options.config)
    try:
        with KafkaCluster(options.version, options.brokers, config, options.tls, options.heap, sasl=sasl) as kafka:
            print("\n".join(told(kafka)), flush=True)
            while True:
                ready, _, _ = select([sys.stdin, awake], [], [])
                if awake in ready or not os.read(sys.stdin.fileno(), 4096):
                    return 0
    except (BrokerSetupError, ValueError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1


def told(kafka: KafkaCluster) -> Iterator[str]:
    """Yield the lines that say where the brokers are, and how to log in."""
    yield kafka.hosts
    if kafka.certificates is not None:
        yield kafka.tls_hosts
    if kafka.sasl is not None:
        yield from (f"{name} {kafka.hosts_of(name)}" for name in kafka.listeners)
        yield f"mechanisms {' '.join(kafka.mechanisms)}"
        yield from (f"user {name} {password}" for name, password in kafka.sasl.users.items())
        yield f"cafile {kafka.cafile}"
        yield f"token {kafka.token(kafka.user, 86_400)}"


if __name__ == "__main__":
    raise SystemExit(main())
