"""`ProcessDirectory`: the figures of all processes of a prefork server, in one file each."""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.prometheus.families import Families

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler

log = logging.getLogger(__name__)

#: How many names of files whose totals were taken over are remembered: a reader may hold one that is gone now.
REMEMBERED = 1000
#: How old an unfinished file is that no process is going to finish (s). A process whose lock is missing counts as running
#: for as long: another program has removed the lock, and the process makes it anew when it writes next.
LEFT_S = 60.0


class Figures(NamedTuple):
    """The contents of a directory.

    :param families: of all processes: all of the living ones, the totals of those that have ended
    :param processes: how many are alive
    :param age_s: how old the oldest file of a living process is (s)
    :param has_ended: whether there are files of processes that have ended: call `take_over()`
    :param unreadable: how many files are left out: damaged ones, and those that this user may not read
    """

    families: Families
    processes: int
    age_s: float
    has_ended: bool
    unreadable: int


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

    Totals never fall: if a file cannot be read for another reason than its permissions, `read` raises, as the sum of the
    others would be less than before.

    State: `_stem`, `_finalizer` and `_written` change under `_lock`, which is never held across a wait. `_left_out` changes
    in single steps.

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
        # The files that the last reading has left out: each is logged once.
        self._left_out: frozenset[str] = frozenset()
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
            self._enter()
            self._replace(self._path(self._stem, "json"), text)
            self._written = number

    def _enter(self) -> None:
        """Lock a file that says that this process is alive, unless it is there; it gets its name when it is locked.

        Each write renews its time, so programs that remove old files of temporary directories leave it alone. If one has
        removed it nevertheless, or has emptied the directory, the new one has its name: the figures beside it stay this
        process's.
        """
        if self._stem:
            with suppress(FileNotFoundError):
                os.utime(self._path(self._stem, "lock"))
                return
        if self._finalizer is not None:
            self._finalizer()
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        stem = self._stem or f"{self._prefix}{os.getpid()}-{os.urandom(4).hex()}"
        path = self._path(stem, "lock")
        unfinished = f"{path}.{os.urandom(4).hex()}.new"
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._finalizer = weakref.finalize(self, os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.rename(unfinished, path)
        self._stem = stem

    def _path(self, stem: str, suffix: str) -> str:
        return os.path.join(self.path, f"{stem}.{suffix}")

    @staticmethod
    def _replace(path: str, text: str) -> None:
        """Write a file such that readers see the old text or the new one."""
        unfinished = f"{path}.{os.urandom(4).hex()}.new"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Without a buffer, of which a fork at this moment would make a copy.
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                left = memoryview(text.encode())
                while left:
                    left = left[file.write(left) :]
            os.replace(unfinished, path)
        except BaseException:
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

    def read(self, like: Families) -> Figures:
        """Return the figures of all processes.

        :param like: the figures of this process: histograms with other bounds, of another release of the client, are left out
        :raises OSError: the directory cannot be read
        """
        families, living, ended, has_ended, processes, age_s = like.without_samples(), {}, {}, False, 0, 0.0
        left_out: dict[str, Exception] = {}
        for stem in self._stems():
            found = self._load_unless_refused(stem, left_out)
            if found is None:
                has_ended |= self._is_damaged(stem, left_out) and not self._is_alive(stem)
            elif self._is_alive(stem):
                processes += 1
                age = self._age_s(self._path(stem, "json"))
                age_s = age_s if found.is_last or age == math.inf else max(age_s, age)
                living[stem] = found.families
            else:
                ended[stem] = found.families.counters()
        totals, taken_over = self._load_totals(left_out)
        for stem, figures in living.items():
            # It may have ended meanwhile, and another reader may have taken its totals over.
            is_over = stem in taken_over and not self._is_alive(stem)
            families.merge(figures.without_counters() if is_over else figures)
        families.merge(totals)
        for stem, counters in ended.items():
            if stem not in taken_over:
                families.merge(counters)
        self._log_once(left_out)
        return Figures(families, processes, age_s, has_ended or bool(ended), len(left_out))

    def _names(self, suffix: str) -> list[str]:
        return [
            name for name in sorted(os.listdir(self.path)) if name.startswith(self._prefix) and name.endswith(suffix)
        ]

    def _stems(self) -> list[str]:
        return [name.removesuffix(".json") for name in self._names(".json")]

    def _log_once(self, left_out: dict[str, Exception]) -> None:
        before, self._left_out = self._left_out, frozenset(left_out)
        for name in sorted(left_out.keys() - before):
            log.warning("%s is left out of the metrics of all processes: %s", name, left_out[name])

    def _load(self, stem: str) -> _Written | None:
        """Return the figures of a process; None if another reader has taken its totals over.

        :raises ValueError: the file is damaged
        :raises OSError: it cannot be read
        """
        try:
            is_last, plain = self._load_pair(self._path(stem, "json"))
        except FileNotFoundError:
            return None
        return _Written(bool(is_last), Families.of_plain(plain))

    def _load_unless_refused(self, stem: str, left_out: dict[str, Exception]) -> _Written | None:
        try:
            return self._load(stem)
        except (ValueError, PermissionError, IsADirectoryError) as error:
            left_out[self._path(stem, "json")] = error
            return None

    def _is_damaged(self, stem: str, left_out: dict[str, Exception]) -> bool:
        return isinstance(left_out.get(self._path(stem, "json")), ValueError)

    @staticmethod
    def _load_pair(path: str) -> tuple[Any, Any]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        try:
            first, second = json.loads(text)
        except (TypeError, RecursionError) as error:
            raise ValueError(f"these are no figures: {error}") from error
        return first, second

    def _is_alive(self, stem: str) -> bool:
        try:
            descriptor = os.open(self._path(stem, "lock"), os.O_RDONLY)
        except FileNotFoundError:  # `take_over` removes it after the figures
            return self._age_s(self._path(stem, "json")) < LEFT_S
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _age_s(self, path: str) -> float:
        """Return the age of a file (s); endless if it is gone."""
        try:
            return max(0.0, self._time_ms() / 1000 - os.stat(path).st_mtime)
        except FileNotFoundError:
            return math.inf

    # -- the totals of processes that have ended ---------------------------------------------------------------------

    @property
    def _totals(self) -> str:
        return os.path.join(self.path, f"{self._prefix}ended")

    def _load_totals(self, left_out: dict[str, Exception]) -> tuple[Families, list[str]]:
        try:
            taken_over, plain = self._load_pair(self._totals)
            return Families.of_plain(plain), [str(stem) for stem in taken_over]
        except FileNotFoundError:
            return Families(), []
        except (ValueError, TypeError) as error:
            left_out[self._totals] = error
            return Families(), []

    def take_over(self, like: Families) -> None:
        """Add the totals of ended processes to the sum, and remove their files, unless another process does this now.

        :param like: as of `read`
        :raises OSError: the directory cannot be written to
        """
        descriptor = os.open(f"{self._totals}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            before, taken_over = self._load_totals({})
            totals = like.without_samples().counters()
            totals.merge(before)
            left_out: dict[str, Exception] = {}
            ended = []
            for stem in self._stems():
                found = self._load_unless_refused(stem, left_out)
                is_refused = found is None and not self._is_damaged(stem, left_out)
                if is_refused or self._is_alive(stem):
                    continue
                ended.append(stem)
                if found is not None and stem not in taken_over:
                    totals.merge(found.families.counters())
                    taken_over.append(stem)
            self._replace(self._totals, json.dumps([taken_over[-REMEMBERED:], totals.plain()]))
            self._remove(ended)
        except BlockingIOError:
            return
        finally:
            os.close(descriptor)

    def _remove(self, ended: list[str]) -> None:
        """Remove the files of ended processes, and what processes that were killed have not finished."""
        paths = [self._path(stem, suffix) for stem in ended for suffix in ("json", "lock")]
        unfinished = [os.path.join(self.path, name) for name in self._names(".new")]
        for path in [*paths, *(path for path in unfinished if self._age_s(path) > LEFT_S)]:
            with suppress(
                FileNotFoundError, PermissionError
            ):  # another user's, whose totals were taken over nevertheless
                os.unlink(path)
