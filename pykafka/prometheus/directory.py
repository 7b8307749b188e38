"""`ProcessDirectory`: the figures of all processes of a prefork server, in one file each."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pykafka.prometheus.families import Families

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler

log = logging.getLogger(__name__)

#: How many names of files whose totals were taken over are remembered: a reader may hold one that is gone now.
REMEMBERED = 1000


class Figures(NamedTuple):
    """The contents of a directory.

    :param families: of all processes: all of the living ones, the totals of those that have ended
    :param processes: how many are alive
    :param age_s: how old the oldest file of a living process is (s)
    :param has_ended: whether there are files of processes that have ended: call `take_over()`
    """

    families: Families
    processes: int
    age_s: float
    has_ended: bool


class _Written(NamedTuple):
    """The file of a process.

    :param is_last: see `ProcessDirectory.write`
    """

    is_last: bool
    families: Families


class ProcessDirectory:
    """The figures of the processes that share a directory; each scraped process reads all files, and waits for no other one.

    A process holds a lock on a file beside its figures, which the system takes from it at its end, however it ends. Then the
    next reader adds its totals to those of all ended processes, under a lock, and removes its files. A reader reads that sum
    last: what it has read itself and finds named there, it does not count.

    State: `_stem`, `_descriptor` and `_written` change under `_lock`, which is never held across a wait.

    :param path: of the directory, which is made if it is not there
    :param kind: processes with different names of series do not mix
    :param native: supplies the lock: threads outside of a hub may scrape, too
    :param time_ms: the wall clock, as that of files
    :raises OSError: the directory cannot be written to
    """

    def __init__(self, path: str, kind: str, native: Handler, time_ms: Callable[[], int]) -> None:
        self.path = path
        self._prefix = f"pykafka-{kind}-"
        self._native = native
        self._time_ms = time_ms
        self._finalizer: weakref.finalize[..., ProcessDirectory] | None = None
        os.makedirs(path, mode=0o700, exist_ok=True)
        self.after_fork()

    def after_fork(self) -> None:
        """Leave the files to the parent, which this process was forked from, and take others with the next `write`."""
        if self._finalizer is not None:
            self._finalizer()  # closing a copy of the parent's descriptor does not unlock the parent's file
        self._lock = self._native.Lock()
        self._stem = ""
        self._written = 0

    # -- the figures of this process ---------------------------------------------------------------------------------

    def write(self, families: Families, number: int, is_last: bool) -> None:
        """Replace the figures of this process, unless later ones are there.

        :param number: later figures have a higher one
        :param is_last: whether no others are expected, so that their age says nothing
        :raises OSError: the file cannot be written
        """
        text = json.dumps([is_last, families.plain()])
        with self._lock:
            if number <= self._written:
                return
            if not self._stem or not os.path.exists(self._path(self._stem, "lock")):  # or the directory was emptied
                self._enter()
            self._replace(self._path(self._stem, "json"), text)
            self._written = number

    def _enter(self) -> None:
        """Lock a file that says that this process is alive; it gets its name when it is locked."""
        if self._finalizer is not None:
            self._finalizer()
        stem = f"{self._prefix}{os.getpid()}-{os.urandom(4).hex()}"
        path = self._path(stem, "lock")
        descriptor = os.open(f"{path}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._finalizer = weakref.finalize(self, os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.rename(f"{path}.new", path)
        self._stem = stem

    def _path(self, stem: str, suffix: str) -> str:
        return os.path.join(self.path, f"{stem}.{suffix}")

    @staticmethod
    def _replace(path: str, text: str) -> None:
        """Write a file such that readers see the old text or the new one."""
        unfinished = f"{path}.{os.urandom(4).hex()}.new"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(unfinished, path)
        except OSError:
            with suppress(OSError):
                os.unlink(unfinished)
            raise

    def close(self) -> None:
        """Unlock this process's file: its totals stay, as those of a process that has ended."""
        with self._lock:
            if self._finalizer is not None:
                self._finalizer()
            self._stem = ""

    # -- the figures of all ------------------------------------------------------------------------------------------

    def read(self) -> Figures:
        """Return the figures of all processes.

        :raises OSError: the directory cannot be read
        """
        families, ended, processes, age_s = Families(), {}, 0, 0.0
        for stem in self._stems():
            found = self._load(stem)
            if found is None:
                continue
            if self._is_alive(stem):
                processes += 1
                age_s = max(age_s, 0.0 if found.is_last else self._age_s(stem))
                families.merge(found.families)
            else:
                ended[stem] = found.families.counters()
        totals, taken_over = self._load_totals()
        families.merge(totals)
        for stem, counters in ended.items():
            if stem not in taken_over:
                families.merge(counters)
        return Figures(families, processes, age_s, bool(ended))

    def _stems(self) -> list[str]:
        names = sorted(os.listdir(self.path))
        return [
            name.removesuffix(".json") for name in names if name.startswith(self._prefix) and name.endswith(".json")
        ]

    def _load(self, stem: str) -> _Written | None:
        try:
            with open(self._path(stem, "json"), encoding="utf-8") as file:
                is_last, plain = json.load(file)
                return _Written(bool(is_last), Families.of_plain(plain))
        except FileNotFoundError:  # another reader has taken its totals over
            return None
        except (ValueError, TypeError) as error:
            log.warning("%s is left out: %s", self._path(stem, "json"), error)
            return None

    def _is_alive(self, stem: str) -> bool:
        try:
            descriptor = os.open(self._path(stem, "lock"), os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _age_s(self, stem: str) -> float:
        try:
            return max(0.0, self._time_ms() / 1000 - os.stat(self._path(stem, "json")).st_mtime)
        except FileNotFoundError:
            return 0.0

    # -- the totals of processes that have ended ---------------------------------------------------------------------

    @property
    def _totals(self) -> str:
        return os.path.join(self.path, f"{self._prefix}ended")

    def _load_totals(self) -> tuple[Families, list[str]]:
        try:
            with open(self._totals, encoding="utf-8") as file:
                taken_over, plain = json.load(file)
                return Families.of_plain(plain), taken_over
        except FileNotFoundError:
            return Families(), []
        except (ValueError, TypeError) as error:
            log.warning("%s is left out: %s", self._totals, error)
            return Families(), []

    def take_over(self) -> None:
        """Add the totals of ended processes to the sum, and remove their files, unless another process does this now.

        :raises OSError: the directory cannot be written to
        """
        descriptor = os.open(f"{self._totals}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            totals, taken_over = self._load_totals()
            ended = [stem for stem in self._stems() if not self._is_alive(stem)]
            for stem in ended:
                found = self._load(stem)
                if found is not None and stem not in taken_over:
                    totals.merge(found.families.counters())
                    taken_over.append(stem)
            self._replace(self._totals, json.dumps([taken_over[-REMEMBERED:], totals.plain()]))
            for stem in ended:
                for suffix in ("json", "lock"):
                    with suppress(FileNotFoundError):
                        os.unlink(self._path(stem, suffix))
        except BlockingIOError:
            return
        finally:
            os.close(descriptor)
