"""PyKafka 2.8.0 in an environment of its own: it runs programs that ours must run alike, and joins groups in ZooKeeper.

    old, new = run_old(program, hosts), run_new(program, hosts)
    assert (new.stdout, new.returncode) == (old.stdout, old.returncode)

Run as a program, by that environment's Python, it is a member: `oldpykafka.py HOSTS ZOOKEEPER TOPIC GROUP`. It prints
`share 0 1 ...` whenever its partitions change and `got VALUE` for each message, and leaves when standard input closes.
"""

from __future__ import annotations

import fcntl
import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

RELEASE = "2.8.0"
INSTALL_TIMEOUT_S = 300
#: A program of 2.8.0 that starts and stops a client takes some seconds.
RUN_TIMEOUT_S = 60.0


def old_python() -> Path:
    """Return the Python of an environment with PyKafka 2.8.0 from PyPI, made once in the user's cache."""
    from tests.brokers.jars import cache_directory

    target = cache_directory() / f"pykafka-{RELEASE}-{sys.implementation.cache_tag}"
    python = target / "bin" / "python"
    done, codecs = target / "complete", target / "codecs"
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(target, ignore_errors=True)
            _run(sys.executable, "-m", "venv", str(target))
            install_release(python)
            done.touch()
        if not codecs.exists():
            # What 2.8.0 imports if it is there, to read and write compressed messages.
            _run(str(python), "-m", "pip", "install", "--quiet", "python-snappy", "lz4", "xxhash")
            codecs.touch()
    return python


def install_release(python: Path) -> None:
    """Install PyKafka 2.8.0 from PyPI, in the place of another release."""
    # Its setup.py is of its time; it knows neither later setuptools nor isolated builds.
    _run(str(python), "-m", "pip", "install", "--quiet", "setuptools<70", "wheel")
    _run(str(python), "-m", "pip", "install", "--quiet", "--no-build-isolation", f"pykafka=={RELEASE}")


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


def run_old(
    program: str | Path, *arguments: str, stdin: str = "", timeout: float = RUN_TIMEOUT_S, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program with PyKafka 2.8.0, and return its status and what it printed.

    It runs outside the checkout, without our `PYTHON*` variables.

    :param program: a file, or source text
    :param arguments: what the program finds in `sys.argv[1:]`
    :param stdin: all of its standard input
    :param timeout: seconds after which it is killed, with its child processes
    :param options: of the interpreter, such as `-bb`
    :raises subprocess.TimeoutExpired: it did not end; the error has its output so far
    """
    return _finish(start(old_python(), program, *arguments, options=options), stdin, timeout)


def run_new(
    program: str | Path, *arguments: str, stdin: str = "", timeout: float = RUN_TIMEOUT_S, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program with this package on this interpreter; otherwise like `run_old`."""
    return _finish(start(sys.executable, program, *arguments, options=options), stdin, timeout)


def start(
    python: str | Path, program: str | Path, *arguments: str, options: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start a program that the caller waits for or signals: `python` is `old_python()` or `sys.executable`."""
    source = ["-c", program] if isinstance(program, str) else [str(program.resolve())]
    return subprocess.Popen(
        [str(python), *options, *source, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env=_environment(),
        start_new_session=True,
    )


def _finish(process: subprocess.Popen[str], stdin: str, timeout: float) -> subprocess.CompletedProcess[str]:
    try:
        stdout, stderr = process.communicate(stdin, timeout)
    except BaseException:
        # Children that outlive the program would hold its pipes open.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


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
            env=_environment(),
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
