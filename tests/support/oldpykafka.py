"""PyKafka 2.8.0 in an environment of its own, as another member of groups in ZooKeeper.

Run as a program, by that environment's Python, it is a member: `oldpykafka.py HOSTS ZOOKEEPER TOPIC GROUP`. It prints
`share 0 1 ...` whenever its partitions change and `got VALUE` for each message, and leaves when standard input closes.
"""

from __future__ import annotations

import fcntl
import os
import queue
import select
import shutil
import subprocess
import sys
import threading
from pathlib import Path

RELEASE = "2.8.0"
INSTALL_TIMEOUT_S = 300


def old_python() -> Path:
    """Return the Python of an environment with PyKafka 2.8.0 from PyPI, made once in the user's cache."""
    from tests.brokers.jars import cache_directory

    target = cache_directory() / f"pykafka-{RELEASE}-{sys.implementation.cache_tag}"
    python = target / "bin" / "python"
    done = target / "complete"
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(target, ignore_errors=True)
            _run(sys.executable, "-m", "venv", str(target))
            # Its setup.py is of its time; it knows neither later setuptools nor isolated builds.
            _run(str(python), "-m", "pip", "install", "--quiet", "setuptools<70", "wheel")
            _run(str(python), "-m", "pip", "install", "--quiet", "--no-build-isolation", f"pykafka=={RELEASE}")
            done.touch()
    return python


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed; is PyPI to be reached?\n{done.stdout[-2000:]}")


class OldMember:
    """A member of PyKafka 2.8.0, as a process.

    :param arguments: hosts, ZooKeeper's hosts, topic, group
    """

    def __init__(self, *arguments: str) -> None:
        self.share: list[int] = []
        self._values: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [str(old_python()), os.path.abspath(__file__), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd="/",
            env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, *rest = line.split()
            if what == "share":
                self.share = [int(one) for one in rest]
            elif what == "got":
                self._values.put(rest[0].encode())

    def take(self) -> list[bytes | None]:
        """Return the values that it has consumed since the last call."""
        found: list[bytes | None] = []
        while not self._values.empty():
            found.append(self._values.get())
        return found

    def leave(self) -> None:
        """Make the member leave the group and end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait(20)
            self._reader.join(20)
            self._process.stdout.close()
        self.share = []


def _be_a_member(hosts: str, zookeeper: str, topic: str, group: str) -> None:
    from pykafka import KafkaClient

    client = KafkaClient(hosts=hosts, broker_version="2.0.0")
    consumer = client.topics[topic].get_balanced_consumer(
        group,
        zookeeper_connect=zookeeper,
        auto_commit_enable=True,
        auto_commit_interval_ms=1000,
        consumer_timeout_ms=100,
        rebalance_backoff_ms=300,
        rebalance_max_retries=20,
    )
    last: list[int] | None = None
    while True:
        share = sorted(consumer.partitions or {})
        if share != last:
            last = share
            print("share", *share, flush=True)
        message = consumer.consume()
        if message is not None:
            print("got", (message.value or b"").decode(), flush=True)
        if select.select([sys.stdin], [], [], 0)[0] and not sys.stdin.readline():
            break
    consumer.stop()


if __name__ == "__main__":
    _be_a_member(*sys.argv[1:])
