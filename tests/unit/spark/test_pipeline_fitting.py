"""Columns of rows beside those of a table, merges as SQL, conflicts, and what a query has written to: without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from pykafka.handlers import Handler
from pykafka.spark.pipeline import history
from pykafka.spark.pipeline.databases import BATCHES, DatabaseWriter
from pykafka.spark.pipeline.errors import PipelineError, TableMismatchError
from pykafka.spark.pipeline.fitting import Fit, compare, is_on, names_only, refuse_gone, refuse_reserved, refuse_unknown
from pykafka.spark.pipeline.lake_tables import is_conflict, merge_statement, tried_again
from pykafka.spark.pipeline.model import FileSink, JdbcSink, Merge, Sink, TableSink, TopicSink
from pykafka.spark.pipeline.restarts import is_lasting
from pykafka.spark.pipeline.storage import Storage


def columns(**kinds: str) -> StructType:
    return StructType.fromJson(
        {
            "type": "struct",
            "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()],
        }
    )


def nested(**kinds: str) -> Any:
    return columns(**kinds).jsonValue()


@pytest.mark.parametrize(
    ("rows", "table", "sensitive", "expected"),
    [
        (["id", "a"], ["a", "id"], False, Fit((("id", "id"), ("a", "a")))),
        (["id", "b"], ["id", "a"], False, Fit((("id", "id"),), unknown=("b",), lacking=("a",))),
        (["id"], ["ID"], False, Fit((("id", "ID"),))),
        (["id"], ["ID"], True, Fit((), unknown=("id",), lacking=("ID",))),
        # A database may have both.
        (["id"], ["ID", "id"], False, Fit((("id", "id"),), lacking=("ID",))),
        (["Id"], ["ID", "id"], False, Fit((), unknown=("Id",), lacking=("ID", "id"))),
        (["a.b", "c`d"], ["a.b"], False, Fit((("a.b", "a.b"),), unknown=("c`d",))),
    ],
)
def test_names(rows: list[str], table: list[str], sensitive: bool, expected: Fit) -> None:
    assert compare(names_only(rows), names_only(table), sensitive) == expected


def test_fields() -> None:
    """Of structs, also within arrays and maps."""
    inner, other = nested(x="integer", z="integer"), nested(X="integer", y="integer")

    def of(kind: Any) -> StructType:
        array = {"type": "array", "elementType": kind, "containsNull": True}
        pairs = {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True}
        return columns(**{"s": kind, "l": array, "m.m": pairs})

    fit = compare(of(inner), of(other), case_sensitive=False)
    assert (fit.unknown, fit.lacking) == ((), ())
    assert fit.unknown_fields == ("s.z", "l.element.z", "`m.m`.value.z")
    assert fit.lacking_fields == ("s.y", "l.element.y", "`m.m`.value.y")


def test_what_would_be_lost_is_refused() -> None:
    refuse_unknown(Fit((), lacking=("a",)), "table t")
    with pytest.raises(
        TableMismatchError, match=r"^table t has no columns '`a.b`', 's.z', as the rows have: .* step, or x$"
    ) as caught:
        refuse_unknown(Fit((), unknown=("a.b",), unknown_fields=("s.z",)), "table t", ", or x")
    assert is_lasting(caught.value)
    refuse_gone("table t", None)
    with pytest.raises(
        TableMismatchError, match="table t is not there, and the checkpoint says that it has micro-batch 3"
    ):
        refuse_gone("table t", 3)
    refuse_reserved(["gone"], "table t")
    with pytest.raises(TableMismatchError, match="table t cannot take a column '_PYKAFKA_RANK'"):
        refuse_reserved(["_PYKAFKA_RANK"], "table t")


def test_merge_statement() -> None:
    pairs = (("a", "A"), ("b", "b"), ("x`y", "x`y"))
    assert merge_statement("t", Merge(("a", "b"), (), ""), pairs) == (
        "MERGE INTO t AS t USING (SELECT *, false AS `_pykafka_gone` FROM pykafka_batch) AS s "
        "ON t.`A` <=> s.`a` AND t.`b` <=> s.`b`\n"
        "WHEN MATCHED THEN UPDATE SET `A` = s.`a`, `b` = s.`b`, `x``y` = s.`x``y`\n"
        "WHEN NOT MATCHED AND NOT s.`_pykafka_gone` THEN INSERT (`A`, `b`, `x``y`) VALUES (s.`a`, s.`b`, s.`x``y`)"
    )
    commented = merge_statement("t", Merge(("a",), (), "x IS NULL -- gone"), pairs)
    assert "SELECT *, coalesce((x IS NULL -- gone\n), false) AS `_pykafka_gone`" in commented
    assert "WHEN MATCHED AND s.`_pykafka_gone` THEN DELETE" in merge_statement("t", Merge(("a",), (), "x"), pairs)


# -- databases


def moves(fit: Fit, with_null: tuple[str, ...] = (), has_gone: bool = False, merge: Merge | None = None) -> list[str]:
    writer = object.__new__(DatabaseWriter)
    writer._sink = JdbcSink("t", {"url": "jdbc:derby:x"}, merge)
    writer._dialect = SimpleNamespace(quoteIdentifier=lambda name: f'"{name}"')
    return list(writer._moves("s", fit, with_null, has_gone))


def test_rows_of_a_database() -> None:
    fit = Fit((("id", "ID"), ("a", "a")))
    insert = 'INSERT INTO t ("ID", "a") SELECT s."id", s."a" FROM s'
    assert moves(fit) == [insert]
    key = Merge(("id",), (), "")
    assert moves(fit, merge=key) == ['DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s."id" = t."ID")', insert]
    nulls = '(s."id" = t."ID" OR (s."id" IS NULL AND t."ID" IS NULL))'
    assert moves(fit, ("id",), True, key) == [
        f"DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE {nulls})",
        f'{insert} WHERE s."pykafka_gone" = 0',
    ]


def test_columns_of_a_database_that_rows_lack_stay() -> None:
    fit = Fit((("id", "id"), ("a", "A")), lacking=("b",))
    same = 'SELECT 1 FROM s WHERE s."id" = t."id"'
    assert moves(fit, (), True, Merge(("id",), (), "")) == [
        f'DELETE FROM t WHERE EXISTS ({same} AND NOT s."pykafka_gone" = 0)',
        f'UPDATE t SET "A" = (SELECT s."a" FROM s WHERE s."id" = t."id") WHERE EXISTS ({same})',
        'INSERT INTO t ("id", "A") SELECT s."id", s."a" FROM s WHERE s."pykafka_gone" = 0 AND NOT EXISTS (SELECT 1 FROM t '
        'WHERE s."id" = t."id")',
    ]


class Connection:
    """A connection to a database, which nothing asks."""

    def setAutoCommit(self, _: bool) -> None: ...

    def commit(self) -> None: ...


class Rows:
    """Stands for a DataFrame."""

    def __init__(self, *columns: str) -> None:
        self.columns = [*columns]

    def drop(self, name: str) -> Rows:
        return Rows(*(one for one in self.columns if one != name))

    def limit(self, _: int) -> Rows:
        return self


class Database(DatabaseWriter):
    """A writer whose database notes what is asked.

    :param merge: of the sink
    :param tables: columns of those that are there, by name
    :param quicker: whether another query makes a table first
    """

    def __init__(self, merge: Merge | None, tables: dict[str, list[str]], quicker: bool = False) -> None:
        self._sink = JdbcSink("t", {"url": "jdbc:derby:x"}, merge)
        self._dialect = SimpleNamespace(quoteIdentifier=lambda name: f'"{name}"')
        self._case_sensitive = False
        self.tables, self.quicker, self.asked = tables, quicker, list[str]()

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        yield Connection()

    def _exists(self, connection: Any, table: str) -> bool:
        return table in self.tables

    def _columns(self, connection: Any) -> list[str] | None:
        return self.tables.get("t")

    def _write(self, rows: Any, table: str, mode: str) -> None:
        self.tables[table] = rows.columns

    def _execute(self, connection: Any, text: str) -> None:
        self.asked.append(text)
        if text.startswith("CREATE TABLE"):
            if self.quicker:
                self.tables[BATCHES] = []
            raise PipelineError("it cannot be made")

    def _is_done(self, connection: Any, query: str, number: int) -> bool:
        return False

    def _keys_with_null(self, connection: Any, staging: str) -> list[str]:
        return []

    def _note(self, connection: Any, query: str, number: int) -> None: ...


def test_a_column_of_our_own_name() -> None:
    """Rows that are added keep it; a merge would take it for its own."""
    added = Database(None, {BATCHES: []})
    added.land(cast(Any, Rows("id", "pykafka_gone")), "q", 0)
    assert added.tables["t"] == ["id", "pykafka_gone"]
    assert 'INSERT INTO t ("id", "pykafka_gone") SELECT' in added.asked[0]
    merged = Database(Merge(("id",), (), ""), {BATCHES: [], "t": ["id", "pykafka_gone"]})
    with pytest.raises(TableMismatchError, match="cannot take a column 'pykafka_gone'"):
        merged.fit(["id", "pykafka_gone"], None)
    merged = Database(Merge(("id",), (), "x"), {BATCHES: []})
    merged.land(cast(Any, Rows("id", "pykafka_gone")), "q", 0)
    assert merged.tables["t"] == ["id"]


def test_two_queries_make_the_table_of_numbers() -> None:
    """The slower one continues with it; an error that has another reason is told."""
    Database(None, {}, quicker=True).land(cast(Any, Rows("id")), "q", 0)
    with pytest.raises(PipelineError, match="cannot be made"):
        Database(None, {}).land(cast(Any, Rows("id")), "q", 0)


@pytest.mark.parametrize(("text", "expected"), [("true", True), (" TRUE", True), ("false", False), (None, False)])
def test_settings_as_spark_takes_them(text: str | None, expected: bool) -> None:
    conf = SimpleNamespace(get=lambda _, default: default if text is None else text)
    assert is_on(cast(Any, SimpleNamespace(conf=conf)), "spark.sql.caseSensitive") is expected


# -- conflicts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[DELTA_CONCURRENT_DELETE_READ] ConcurrentDeleteReadException: ...", True),
        ("java.util.ConcurrentModificationException: x", True),
        ("org.apache.iceberg.exceptions.ValidationException: Missing required files to delete: a", True),
        ("org.apache.iceberg.exceptions.ValidationException: Invalid name", False),
        ("[DELTA_METADATA_MISMATCH] A schema mismatch", False),
        ("[SCHEDULER_CONCURRENT] x", False),
    ],
)
def test_conflicts(text: str, expected: bool) -> None:
    assert is_conflict(PySparkException(text)) is expected


class Clock:
    """A handler that does not sleep."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.random = SimpleNamespace(uniform=lambda low, high: high)
        self.sleep = self.pauses.append


def test_a_lost_change_is_tried_again() -> None:
    clock = Clock()
    errors = [PySparkException("DELTA_CONCURRENT_APPEND"), PySparkException("DELTA_CONCURRENT_APPEND")]

    def change() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert tried_again(cast(Handler, clock), change) == "done"
    assert clock.pauses == [1.0, 2.0]


@pytest.mark.parametrize(("text", "pauses"), [("DELTA_CONCURRENT_APPEND", 6), ("no space left", 0)])
def test_an_error_that_stays(text: str, pauses: int) -> None:
    clock = Clock()

    def change() -> str:
        raise PySparkException(text)

    with pytest.raises(PySparkException, match=text):
        tried_again(cast(Handler, clock), change)
    assert len(clock.pauses) == pauses
    assert sum(clock.pauses) <= 32


# -- what a query has written to


class Files:
    """Storage on this machine's own files."""

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def last_number(self, path: str) -> int | None:
        return max((int(one.name) for one in Path(path).glob("*")), default=None)

    def qualified(self, path: str) -> str:
        return f"file:{path.rstrip('/')}"

    def read(self, path: str) -> str | None:
        return Path(path).read_text() if Path(path).exists() else None

    def write(self, path: str, text: str) -> None:
        Path(path).write_text(text)


def table(path: str = "/t", *keys: str) -> TableSink:
    return TableSink("delta", path, "", "", (), {}, Merge(keys, (), "") if keys else None)


def database(url: str) -> JdbcSink:
    return JdbcSink("t", {"url": url}, None)


def written(storage: Storage, checkpoint: Path, sink: Sink) -> None:
    """Leave what a run with a micro-batch leaves."""
    history.check(storage, sink, "append", str(checkpoint))
    history.note(storage, sink, "append", str(checkpoint))
    (checkpoint / "commits").mkdir()
    (checkpoint / "commits" / "4").touch()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (FileSink("/a", (), {}), FileSink("/b", (), {}), "place was file:/a and is file:/b"),
        (FileSink("/a", (), {}), FileSink("/a", (), {}, "json"), "format was parquet and is json"),
        (FileSink("/a", ("day",), {}), FileSink("/a", (), {}), "partition_by was day and is nothing"),
        (
            database("jdbc:x://me:p@q@h/a"),
            JdbcSink("u", {"url": "jdbc:x://me:p@h/a"}, None),
            "place was table t of jdbc:x:... and is table u of jdbc:x://h/a",
        ),
        (table("/t", "id"), table("/t", "id", "b"), "merge was id and is id, b"),
        (table("/t"), table("/t", "id"), "merge was nothing and is id"),
    ],
)
def test_a_sink_that_is_declared_anew(tmp_path: Path, before: Sink, after: Sink, expected: str) -> None:
    storage = cast(Storage, Files())
    history.note(storage, before, "append", str(tmp_path))
    history.check(storage, after, "append", str(tmp_path))  # nothing is written yet
    written(storage, tmp_path, before)
    with pytest.raises(TableMismatchError) as caught:
        history.check(storage, after, "append", str(tmp_path))
    assert f"belongs to: {expected}. Rows up to micro-batch 4 were" in str(caught.value)
    (tmp_path / history.NAME).unlink()
    history.check(storage, after, "append", str(tmp_path))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FileSink("/a", (), {}), FileSink("/a/", (), {})),
        (TopicSink({"topic": "a"}), TopicSink({"topic": "b"})),
        (database("jdbc:postgresql://db/x?password=a"), database("jdbc:postgresql://db/x?password=b")),
        (database("jdbc:postgresql://db/x?password=a"), database("jdbc:postgresql://db/x?password=b@c")),
    ],
)
def test_a_sink_that_is_the_same(tmp_path: Path, before: Sink, after: Sink) -> None:
    storage = cast(Storage, Files())
    written(storage, tmp_path, before)
    assert "password" not in (tmp_path / history.NAME).read_text()
    history.check(storage, after, "append", str(tmp_path))


def test_another_output_mode(tmp_path: Path) -> None:
    """It matters to a query with state; without, each mode has the new rows."""
    storage = cast(Storage, Files())
    written(storage, tmp_path, table())
    history.check(storage, table(), "complete", str(tmp_path))
    (tmp_path / "state").mkdir()
    with pytest.raises(TableMismatchError, match="output_mode was append and is complete"):
        history.check(storage, table(), "complete", str(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 5_000])
def test_a_note_that_somebody_has_changed(tmp_path: Path, text: str) -> None:
    storage = cast(Storage, Files())
    written(storage, tmp_path, table())
    (tmp_path / history.NAME).write_text(text)
    with pytest.raises(TableMismatchError, match="pykafka-sink.json does not say .* delete it"):
        history.check(storage, table(), "append", str(tmp_path))


def test_a_note_without_a_fact_that_came_later(tmp_path: Path) -> None:
    storage = cast(Storage, Files())
    written(storage, tmp_path, FileSink("/a", ("day",), {}))
    noted = json.loads((tmp_path / history.NAME).read_text())
    del noted["partition_by"]
    (tmp_path / history.NAME).write_text(json.dumps(noted))
    history.check(storage, FileSink("/a", (), {}), "append", str(tmp_path))
