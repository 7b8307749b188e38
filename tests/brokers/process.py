"""A Java process that never outlives the Python process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.brokers.jars import BrokerSetupError, java

# Reads until the pipe to its starter closes, however that ended, then kills the group of the JVM and removes its data.
_WATCHDOG = 'read -r _; kill -s KILL -- "-$1"; if [ -n "$2" ]; then sleep 0.2; rm -rf -- "$2"; fi'

#: How long a process may take to stop after SIGSTOP (s): the thread that takes the signal first needs a CPU.
HOLD_TIMEOUT_S = 30.0


def hold(pid: int) -> None:
    """Stop a process (SIGSTOP), and return when all its threads have stopped: until then they may still answer.

    :raises TimeoutError: it takes longer than `HOLD_TIMEOUT_S`
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + HOLD_TIMEOUT_S
    while _runs(pid):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"process {pid} has not stopped {HOLD_TIMEOUT_S:.0f} s after SIGSTOP; the machine is overloaded"
            )
        time.sleep(0.001)


def _runs(pid: int) -> bool:
    """Return whether a thread of a process is neither stopped nor at its end, as Linux reports it."""
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            state = path.read_text().rpartition(")")[2].split()[0]
        except OSError:  # the thread has ended meanwhile
            continue
        if state not in "TtZX":
            return True
    return False


class JavaProcess:
    """Start, pause, stop and kill one JVM; its output goes to a file.

    It has a process group of its own, so that Ctrl-C at the terminal reaches the tests and not the brokers, and a
    watchdog that kills it when the starting process ends in whatever way. (The kernel's parent death signal would do so
    already when the starting *thread* ends.)

    :param arguments: what follows `java` on its command line
    :param log: where its output goes
    :param doomed: a directory that the watchdog removes when the starter did not live to do it
    """

    def __init__(self, arguments: Sequence[str], log: Path, doomed: Path | None = None) -> None:
        self.arguments = list(arguments)
        self.log = log
        self.doomed = doomed
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Return the process id while it is running."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the process, without waiting until it is ready."""
        if self.pid is not None:
            raise RuntimeError(f"it is running already, as process {self.pid}")
        self._reap()
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [java(), *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,
                start_new_session=True,
            )
        try:
            self._watchdog = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHDOG, "pykafka-watchdog", str(self._process.pid), str(self.doomed or "")],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            self.kill()
            raise

    def stop(self, timeout: float = 30.0) -> None:
        """End the process (SIGTERM), and kill it if it still runs after `timeout` seconds."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        try:
            if self._process is not None:
                self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        self._signal(signal.SIGKILL)
        self._reap()

    def pause(self) -> None:
        """Pause the process, and return once it answers nothing: its sockets stay open, as on a machine that hangs."""
        if (pid := self.pid) is not None:
            hold(pid)

    def resume(self) -> None:
        """Resume the process after a pause (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def wait(self, timeout: float) -> int:
        """Wait until the process ends by itself, kill it after `timeout` seconds, and return its exit status."""
        assert self._process is not None
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise BrokerSetupError(f"java has not ended within {timeout} s; its last words:\n{self.tail()}") from error
        finally:
            self.kill()

    def tail(self, size: int = 3000) -> str:
        """Return the end of its output."""
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None:
            os.kill(self.pid, number)

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait(30)
        if self._watchdog is not None:
            # Killed, not let go: the number of the dead JVM may belong to somebody else soon.
            self._watchdog.kill()
            self._watchdog.wait(30)
            assert self._watchdog.stdin is not None
            self._watchdog.stdin.close()
            self._watchdog = None


def wait_until(ready: object, deadline_s: float, what: str, *processes: JavaProcess) -> None:
    """Wait until `ready()` is true; fail early when one of the processes ends.

    :raises BrokerSetupError: it did not happen in time, with the last words of the processes
    """
    assert callable(ready)
    end = time.monotonic() + deadline_s
    while not ready():
        dead = [process for process in processes if process.pid is None]
        if dead or time.monotonic() > end:
            words = "\n".join(process.tail() for process in dead or processes)
            how = "its process ended" if dead else f"not within {deadline_s:.0f} s"
            raise BrokerSetupError(f"{what} did not come up ({how}); its last words:\n{words}")
        time.sleep(0.05)
