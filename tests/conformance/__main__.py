"""Write down what real brokers answer: `python -m tests.conformance record RELEASE...`, or `compare` it."""

from __future__ import annotations

import argparse
import json
import sys

from tests.brokers import KafkaCluster
from tests.brokers.releases import RELEASES
from tests.conformance.programs import PROGRAMS
from tests.conformance.recorded import Transcript, broker_settings, differences, needs_acls, read, write
from tests.conformance.speaker import run


def answers(release: str, names: list[str]) -> dict[str, Transcript]:
    """Return what real brokers of a release answer programs."""
    found: dict[str, Transcript] = {}
    for acls in (False, True):
        chosen = [name for name in names if needs_acls(name) is acls]
        if chosen:
            with KafkaCluster(release, config=broker_settings(release, acls)) as kafka:
                found |= {name: run(PROGRAMS[name], kafka.hosts, kafka.release.numbers) for name in chosen}
    return found


def main() -> int:
    """Run the programs on real brokers of releases."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("releases", nargs="+", choices=list(RELEASES))
    parser.add_argument("--program", action="append", choices=list(PROGRAMS))
    options = parser.parse_args()
    worst = 0
    for release in options.releases:
        found = answers(release, options.program or list(PROGRAMS))
        if options.what == "record":
            write(release, read(release) | found)
            continue
        for name, lines in found.items():
            for difference in differences(read(release)[name], lines):
                worst = 1
                print(f"{release} {name}: {json.dumps(difference)}")
    return worst


if __name__ == "__main__":
    sys.exit(main())
