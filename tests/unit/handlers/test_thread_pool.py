"""Calls in threads of the client's own, in forked processes and at the end of the interpreter."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from pykafka.handlers import GEventHandler, thread_pool

SCRIPT = """
import sys, time
import gevent
from gevent.os import fork, waitpid
from pykafka.handlers import GEventHandler

handler = GEventHandler()
waiting = handler.spawn(handler.offload, time.sleep, 1.0)
handler.sleep(0.1)
child = fork()
assert handler.offload(divmod, 7, 2) == (3, 1)
if child == 0:
    waiting.interrupt()
    gevent.wait(timeout=0.2)
    started = time.monotonic()
    gevent.wait()  # until nothing is left that keeps the hub running
    assert time.monotonic() - started < 5
    sys.exit(0)
assert waiting.join(10)
_, status = waitpid(child, 0)
assert status == 0

import atexit
atexit.register(lambda: print(handler.offload(divmod, 9, 2), flush=True))
"""


def test_offload_in_a_forked_process_and_at_exit() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "(4, 1)\n", "")


def test_offloaded_calls_that_offload_do_not_wait_for_each_others_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a serializer that the client offloads, and whose registry offloads its requests."""
    monkeypatch.setattr(thread_pool, "THREADS_MAX", 2)
    handler, done = GEventHandler(), []

    def outer(number: int) -> None:
        time.sleep(0.05)
        done.append(handler.offload(divmod, number, 2))

    workers = [handler.spawn(handler.offload, outer, number) for number in range(6)]
    assert all(worker.join(10) for worker in workers)
    assert sorted(done) == [divmod(number, 2) for number in range(6)]
    assert thread_pool.POOL.is_here is False
