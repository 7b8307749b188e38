"""`frames_of_threads`: looking at stacks never stops the process, and leaves garbage collection as it was."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pykafka.handlers import whereabouts
from pykafka.handlers.whereabouts import frames_of_threads

ROOT = Path(__file__).resolve().parents[3]
#: Threads begin all the time and there is garbage whose end takes time, while another thread looks at the stacks.
PROGRAM = """
import gc, os, sys, threading, time
from pykafka.handlers.whereabouts import stack_of

class Slow:
    def __init__(self): self.itself = self
    def __del__(self):
        for _ in range(2000): pass

def litter():
    while True:
        Slow()
        time.sleep(0)

def start(depth=5):
    if depth: return start(depth - 1)
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()

def repeat(call):
    while True: call()

sys.setswitchinterval(1e-5)
gc.set_threshold(5, 1, 1)
main = threading.get_ident()
for call in (litter, litter, start, start, lambda: stack_of(main)):
    threading.Thread(target=repeat, args=(call,), daemon=True).start()
time.sleep(3)
print("runs", flush=True)
os._exit(0)
"""


def test_it_does_not_stop_the_process() -> None:
    """Python 3.11 before 3.11.9 stopped for good within three seconds (python/cpython#106883), and so did services."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "runs\n", done.stderr


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("collects", [True, False])
def test_it_leaves_garbage_collection_as_it_was(stops: bool, collects: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whereabouts, "_STOPS", stops)
    try:
        if not collects:
            gc.disable()
        assert threading.get_ident() in frames_of_threads()
        assert gc.isenabled() is collects
    finally:
        gc.enable()
