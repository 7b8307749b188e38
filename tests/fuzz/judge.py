"""`Target` and `judge`: what a decoder may do with bytes from outside, and what counts as a finding."""

from __future__ import annotations

import linecache
import os
import resource
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from types import TracebackType
from typing import NamedTuple

import pykafka
from pykafka.exceptions import KafkaException

#: An input of at most INPUT_MAX bytes may take this much CPU time (s). A decoder that is linear takes a hundredth of it.
CPU_MAX_S = 1.0
#: An input may grow the process by so many bytes: what it may unpack to (UNPACKED_MAX), several times over.
GROWTH_MAX = 48 * 2**20
#: What the targets let compressed data unpack to (bytes).
UNPACKED_MAX = 2**20
#: The longest input of a fuzzing run (bytes).
INPUT_MAX = 4096

_PACKAGE = os.path.dirname(pykafka.__file__)


class UnstableError(AssertionError):
    """Raised by a target when two ways to read the same bytes disagree, or when what was written reads differently."""


@dataclass(frozen=True)
class Target:
    """One decoder, or several of one kind.

    :param name: in the command line; the name of its file in corpus/
    :param read: decodes bytes; returns what `repr` shows in the same way in each process
    :param seeds: returns inputs to begin with
    :param weight: its part of a run's time
    :param errors: that it may raise beside those of pykafka.exceptions; of the package's own `raise`, not Python's
    """

    name: str
    read: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    errors: tuple[type[Exception], ...] = ()
    weight: float = 1.0


class Outcome(NamedTuple):
    """The result of an input.

    :param kind: "read", or the name of the error's class
    :param text: a digest of the result, or the text of the error
    :param finding: what breaks the rules; "" if nothing does
    :param place: the line of the package that a finding is about
    """

    kind: str
    text: str
    finding: str = ""
    place: str = ""


def judge(target: Target, data: bytes) -> Outcome:
    """Read an input, and return what came of it. Whatever a decoder raises is caught: that is what the run is about.

    :param target: the decoder
    :param data: the input
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    try:
        outcome = Outcome("read", sha256(repr(target.read(data)).encode(errors="surrogatepass")).hexdigest()[:16])
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - panics of Rust's packages are no Exception
        outcome = _of_error(target, error)
    if outcome.finding:
        return outcome
    seconds = time.process_time() - start
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if seconds > CPU_MAX_S:
        return outcome._replace(finding=f"SLOW: {seconds:.1f} s of CPU", place=target.name)
    if growth > GROWTH_MAX:
        return outcome._replace(finding=f"LARGE: {growth >> 20} MiB more", place=target.name)
    return outcome


def _of_error(target: Target, error: BaseException) -> Outcome:
    kind, place = type(error).__name__, _place(error.__traceback__)
    # libFuzzer's texts must not depend on addresses; and texts of Python's own errors differ between releases.
    if isinstance(error, KafkaException):
        return Outcome(kind, str(error))
    if isinstance(error, target.errors) and (place.is_raise or not place.is_source):
        return Outcome(kind, str(error))
    text = f"{kind}: {str(error)[:200]}"
    return Outcome(kind, str(error), text, place.text or "".join(traceback.format_exception_only(error)).strip()[:80])


class _Place(NamedTuple):
    """The innermost line of the package in a traceback.

    :param text: file and line
    :param is_raise: whether that line raises, as `raise ValueError(...)`, rather than to have called what does
    :param is_source: whether its source is there, as it is not in compiled modules
    """

    text: str
    is_raise: bool
    is_source: bool


def _place(trace: TracebackType | None) -> _Place:
    found, name, line = "", "", 0
    while trace is not None:
        name, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        if _PACKAGE in name or name.startswith(("pykafka", "<a message")):
            found = f"{name.removeprefix(_PACKAGE)}:{line}"
        trace = trace.tb_next
    source = linecache.getline(name, line).strip()
    return _Place(found, source.startswith("raise "), bool(source) and not name.startswith("pykafka"))
