"""The sink that a query has written to so far: one that is declared anew could lose rows, or have them twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pykafka.spark.pipeline.errors import TableMismatchError
from pykafka.spark.pipeline.model import NOT_SHOWN, OF, FileSink, FormatSink, JdbcSink, Sink, TableSink

if TYPE_CHECKING:
    from pykafka.spark.pipeline.storage import Storage

#: The file in a query's checkpoint; Spark ignores it.
NAME = "pykafka-sink.json"
_FACTS = ("format", "place", "partition_by", "merge", "output_mode")


def described(sink: Sink, mode: str, storage: Storage) -> dict[str, Any]:
    """Return what rows of a sink depend on, without secrets.

    Another topic is no loss: rows go there from then on, as Spark allows it.

    :param mode: Spark's output mode
    """
    about: dict[str, Any] = {"output_mode": mode}
    if isinstance(sink, FileSink):
        # Spark expects the same columns of all: it finds no file beside their directories, and refuses other columns.
        place = storage.qualified(sink.path)
        about |= {"format": sink.format, "place": place, "partition_by": list(sink.partition_by)}
    elif isinstance(sink, FormatSink):  # its path may be no path of a file system
        about |= {"format": sink.format, "place": sink.place}
    elif isinstance(sink, TableSink):
        about |= {"format": sink.format, "place": sink.table or storage.qualified(sink.path)}
    elif isinstance(sink, JdbcSink):
        about |= {"format": "jdbc", "place": sink.place}
    if isinstance(sink, TableSink | JdbcSink):
        about["merge"] = list(sink.merge.keys) if sink.merge is not None else []
    return about


def check(storage: Storage, sink: Sink, mode: str, checkpoint: str) -> None:
    """Raise if the query has written to another sink, or in another way.

    :param mode: Spark's output mode
    :param checkpoint: of the query
    :raises TableMismatchError: says what was changed, and what to do
    """
    done, text = storage.last_number(f"{checkpoint}/commits"), storage.read(f"{checkpoint}/{NAME}")
    if done is None or text is None:
        return
    before, now = _parsed(text, f"{checkpoint}/{NAME}"), described(sink, mode, storage)
    # The mode means nothing to a query without state: its rows are new ones in each mode.
    ignored = set() if storage.exists(f"{checkpoint}/state") else {"output_mode"}
    if now.get("format") == before.get("format") and "partition_by" not in before:  # as it was noted at first
        ignored.add("partition_by")
    changed = [
        f"{name} was {_shown(before.get(name))} and is {_shown(now.get(name))}"
        for name in _FACTS
        if not _is_same(before.get(name), now.get(name)) and name not in ignored
    ]
    if changed:
        raise TableMismatchError(
            f"{sink} is not what the checkpoint {checkpoint} belongs to: {'; '.join(changed)}. Rows up to micro-batch {done} "
            "were written that way, so some would be missing or there twice. Put it back, or take a new checkpoint and a new "
            f"place for the rows; if the sink is right as it is, delete {checkpoint}/{NAME}"
        )


def _parsed(text: str, path: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TableMismatchError(
            f"{path} does not say what the query has written to, so somebody has changed it: bring it back; or, if the sink "
            "is the same as before, delete it"
        )
    return found


def note(storage: Storage, sink: Sink, mode: str, checkpoint: str) -> None:
    """Write down what a query writes to; parameters as of `check`."""
    path, text = f"{checkpoint}/{NAME}", json.dumps(described(sink, mode, storage))
    if storage.read(path) != text:
        storage.write(path, text)


def _is_same(before: Any, now: Any) -> bool:
    """Return whether a fact is the same, as far as it is known."""
    if before != now and any(str(one).endswith(NOT_SHOWN) for one in (before, now)):
        # A password may be another one now: it decides whether the URL of a database is shown. The table is known.
        return str(before).partition(OF)[0] == str(now).partition(OF)[0]
    return bool(before == now)


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) and value else str(value or "nothing")
