"""Subinterpreters, and the end of the interpreter."""

from __future__ import annotations

import subprocess
import sys

SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import pykafka
from pykafka import KafkaClient

CODE = '''
import sys
sys.path[:] = %r
try:
    import pykafka
    from pykafka import KafkaClient
    from pykafka.compiled import compiled_modules
    import pykafka.producer.accumulator
    print("imported", compiled_modules(), flush=True)
except ImportError as error:
    print(error, flush=True)
''' % sys.path

if sys.argv[1] == "isolated":
    interpreter = interpreters.create()
elif sys.version_info < (3, 13):
    interpreter = interpreters.create(isolated=False)
else:
    interpreter = interpreters.create("legacy")
interpreters.run_string(interpreter, CODE)
interpreters.destroy(interpreter)
"""


def run(program: str, *arguments: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.strip()


def test_an_isolated_subinterpreter_is_refused_with_the_reason() -> None:
    said, errors = run(SUBINTERPRETER, "isolated")
    assert said.startswith("pykafka cannot be used in an isolated subinterpreter, where its workers cannot run (")
    assert said.endswith("use the main interpreter, or processes (multiprocessing, ProcessPoolExecutor)")
    assert not errors


def test_other_subinterpreters_load_the_sources() -> None:
    """One interpreter of a process alone can load compiled modules."""
    assert run(SUBINTERPRETER, "shared") == ("imported []", "")


LATE = """
import atexit, sys, threading
import pykafka
from pykafka import KafkaClient

def late():
    try:
        KafkaClient("127.0.0.1:1", use_greenlets=True)
    except RuntimeError as error:
        print(error)

atexit.register(late)
"""


def test_a_first_gevent_client_at_exit_says_to_make_it_earlier() -> None:
    said, _ = run(LATE)
    assert said.startswith("gevent cannot be imported any more (")
    assert said.endswith("make the first client with use_greenlets=True earlier, before the interpreter ends")
