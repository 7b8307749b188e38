"""A process that is patched after its client was made: calls raise an error instead of waiting for ever."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.programs import ROOT

PROGRAM = """
import sys
from pykafka.exceptions import PatchedTooLateError
from pykafka.handlers import ThreadingHandler
early = ThreadingHandler()
event = early.Event()
if sys.argv[1] == "gevent":
    from gevent import monkey
    monkey.patch_all()
else:
    import eventlet
    eventlet.monkey_patch()
for call in (early.Event, lambda: early.spawn(print)):
    try:
        call()
    except PatchedTooLateError as error:
        assert "gunicorn.conf.py" in str(error)
    else:
        raise AssertionError("it was not refused")
late = ThreadingHandler()
done = late.Event()
late.spawn(done.set)
assert done.wait(10)
"""


@pytest.mark.parametrize("kind", ["gevent", "eventlet"])
def test_a_handler_from_before_the_patching_refuses(kind: str) -> None:
    arguments = [sys.executable, "-W", "ignore", "-c", PROGRAM, kind]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
