"""The search for secrets: in log records, in texts of live objects, in errors with their tracebacks and pickles."""

from __future__ import annotations

import base64
import gc
import logging
import pickle
import threading
import traceback
import urllib.parse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Where the code under test lives: what a test's own frames have as locals is the test's affair.
OURS = (str(ROOT / "pykafka"), str(ROOT / "handlers"), str(ROOT / "pyspark_pykafka"))


class Search:
    """Looks for secrets, in the shapes in which they might be written.

    :param secrets: passwords, tokens and keys
    """

    def __init__(self, *secrets: str | bytes) -> None:
        #: Each shape of a secret, and its name for the report.
        self._shapes: dict[bytes, str] = {}
        self._found: set[str] = set()
        self.add(*secrets)

    def add(self, *secrets: str | bytes) -> None:
        """Look for these, too, from now on; what was logged is looked at in the end."""
        for secret in secrets:
            raw = secret.encode() if isinstance(secret, str) else secret
            assert len(raw) >= 6, "it would be found by chance"
            for name, shape in {
                "as it is": raw,
                "in base64": base64.b64encode(raw).rstrip(b"="),
                "in hex": raw.hex().encode(),
                "in a URL": urllib.parse.quote_plus(raw).encode(),
                "as Python writes bytes": repr(raw)[2:-1].encode(),
            }.items():
                self._shapes.setdefault(shape, f"a secret of {len(raw)} bytes {name}")

    def look(self, where: str, text: str | bytes) -> None:
        """Note the secrets in a text.

        :param where: for the report
        """
        data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
        self._found.update(f"{where}: {name}" for shape, name in self._shapes.items() if shape in data)

    def look_at_error(self, error: BaseException) -> None:
        """Look at an error's texts and pickle, at those of its causes, and at its traceback with the locals of our frames."""
        for one in _chain(error):
            kind = type(one).__name__
            for name, text in (
                ("str", str(one)),
                ("repr", repr(one)),
                ("args", repr(one.args)),
                ("vars", repr(vars(one))),
            ):
                self.look(f"{name} of {kind}", text)
            self.look(f"pickle of {kind}", pickle.dumps(one))
            told = traceback.TracebackException.from_exception(one, capture_locals=True)
            for frame in told.stack:
                if frame.filename.startswith(OURS):
                    for name, value in (frame.locals or {}).items():
                        self.look(
                            f"local {name!r} of {frame.name}, line {frame.lineno} of {frame.filename}, by {kind}", value
                        )

    def look_at_objects(self) -> None:
        """Look at repr and str of all live objects of the package."""
        for one in gc.get_objects():
            if str(type(one).__module__).split(".")[0] in ("pykafka", "handlers", "pyspark_pykafka"):
                # The attributes of one whose constructor has raised are missing.
                with suppress(AttributeError):
                    for name, say in (("repr", repr), ("str", str)):
                        self.look(f"{name} of a {type(one).__qualname__}", say(one))

    def look_at_process(self) -> None:
        """Look at the arguments, the title and the thread names of this process."""
        self.look("arguments of the process", Path("/proc/self/cmdline").read_bytes())
        self.look("title of the process", Path("/proc/self/comm").read_bytes())
        self.look("names of threads", " ".join(thread.name for thread in threading.enumerate()))

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Look at all that is logged during the block, at all levels."""

        class Collector(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                records.append(record)

        records: list[logging.LogRecord] = []
        collector, root = Collector(0), logging.getLogger()
        level = root.level
        root.addHandler(collector)
        root.setLevel(logging.DEBUG)
        try:
            yield
        finally:
            root.setLevel(level)
            root.removeHandler(collector)
        assert any(record.levelno == logging.DEBUG for record in records), "nothing was logged at DEBUG"
        for record in records:
            where = f"log record at {record.filename}:{record.lineno}"
            self.look(where, record.getMessage())
            self.look(f"arguments of a {where}", repr(record.args))
            if record.exc_info and record.exc_info[1] is not None:
                self.look_at_error(record.exc_info[1])

    def verdict(self) -> list[str]:
        """Return where secrets were found."""
        return sorted(self._found)


def _chain(error: BaseException | None) -> Iterable[BaseException]:
    seen: list[BaseException] = []
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in seen:
            seen.append(one)
            waiting += [one.__cause__, one.__context__]
    return seen
