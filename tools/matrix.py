"""The tests against many releases of Kafka, cut into named parts: `python tools/matrix.py [--minutes N] [PART ...]`.

Without names all parts are run; with --minutes, parts in rotation (the number of commits says where to begin) until that
time has passed, and what was left out is printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.2", "4.3.1")
#: What every release must do: produce, consume, offsets, codecs, groups through ZooKeeper; on threads and on greenlets.
CORE = ["tests/integration/test_produce_consume.py", "tests/integration/test_balanced.py"]
#: The releases on which all that needs one shared broker is run.
WHOLE = ("0.9.0.1", "2.8.2")
#: Groups together with other clients and through outages.
GROUPS = [f"tests/integration/test_{name}.py" for name in ("balanced_outages", "balanced_mixed", "managed_mixed")]
PARTS: dict[str, tuple[str, list[str]]] = {
    **{f"core-{release}": (release, CORE) for release in RELEASES},
    **{f"failures-{release}": (release, ["tests/integration/test_failures.py"]) for release in WHOLE},
    "churn-4.3.1": ("4.3.1", ["tests/integration/test_balanced_churn.py"]),
    "groups": ("4.3.1", ["-m", "matrix", *GROUPS]),
    "tools": ("4.3.1", ["tests/integration/test_cli_old_brokers.py"]),
    "rdkafka": ("4.3.1", ["tests/integration/test_rdkafka.py"]),
}


def run(part: str) -> bool:
    """Run a part; tell whether it passed."""
    release, arguments = PARTS[part]
    print(f"matrix: {part}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    environment = {**os.environ, "KAFKA_VERSION": release, "REBALANCES": "1000"}
    return subprocess.run(command, env=environment, check=False).returncode == 0


def rotated() -> list[str]:
    """List all parts, beginning at another one after each commit."""
    count = subprocess.run(["git", "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=False).stdout
    begin = int(count or 0) % len(PARTS)
    names = list(PARTS)
    return names[begin:] + names[:begin]


def main() -> int:
    """Run what was asked for; give 1 where a part failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="names of parts; by default all")
    parser.add_argument("--minutes", type=float, help="begin no part after this time")
    parser.add_argument("--list", action="store_true", help="print the names of the parts")
    args = parser.parse_args()
    if args.list:
        print("\n".join(PARTS))
        return 0
    unknown = [part for part in args.parts if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; --list names them")
    names = args.parts or (rotated() if args.minutes is not None else list(PARTS))
    start = time.monotonic()
    failed = []
    while names and (args.minutes is None or time.monotonic() - start < args.minutes * 60):
        part = names.pop(0)
        if not run(part):
            failed.append(part)
    if names:
        print(f"matrix: left out for lack of time: {', '.join(names)}")
    if failed:
        print(f"matrix: failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
