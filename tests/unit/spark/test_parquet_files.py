"""Parquet files that the tasks of a source write: contents, names, failures; and declarations that ask for them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from pykafka.spark import parquetfiles
from pykafka.spark.errors import OptionError, SinkError
from pykafka.spark.parquetfiles import CODECS, DDL, FILE, ParquetFiles
from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.errors import DeclarationError
from pykafka.spark.pipeline.frames import tasks_write_all
from pykafka.spark.pipeline.model import ARROW, FileSink

COLUMNS = ("value", "offset")


def batches(*sizes: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of so many records each."""
    offset = 0
    for size in sizes:
        offsets = range(offset, offset + size)
        yield pa.RecordBatch.from_pydict({"value": [b"%d" % one for one in offsets], "offset": list(offsets)})
        offset += size


def write(files: ParquetFiles, *sizes: int) -> list[str | None]:
    """Return the rows that Spark gets."""
    told = files.written(batches(*sizes), 3, 17, random.Random())
    return [text for batch in told for text in batch.column(FILE).to_pylist()]


@pytest.mark.parametrize("compression", CODECS)
def test_a_task_writes_one_file(tmp_path: Path, compression: str) -> None:
    """Spark gets a row for each record, and among them the path of the file that has them all."""
    rows = write(ParquetFiles(str(tmp_path), COLUMNS, compression), 5, 0, 7)
    assert len(rows) == 12
    (path,) = [text for text in rows if text is not None]
    assert rows[-1] == path
    assert Path(path).parent == tmp_path
    assert Path(path).name.startswith("part-00003-17-")
    assert pq.read_table(path).column("offset").to_pylist() == list(range(12))
    codec = pq.read_metadata(path).row_group(0).column(0).compression
    assert codec == {"none": "UNCOMPRESSED", "lz4": "LZ4"}.get(CODECS[compression][0], CODECS[compression][0].upper())


@pytest.mark.parametrize("sizes", [(), (0,), (0, 0)])
def test_a_task_without_records_writes_nothing(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """There is no file, and no row."""
    assert write(ParquetFiles(str(tmp_path), COLUMNS), *sizes) == []
    assert list(tmp_path.iterdir()) == []


def test_small_batches_share_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group is written when enough rows or bytes wait, so memory is bounded."""
    (path,) = filter(None, write(ParquetFiles(str(tmp_path), COLUMNS), *([10] * 20)))
    assert pq.read_metadata(path).num_row_groups == 1
    monkeypatch.setattr(parquetfiles, "ROW_GROUP_ROWS", 50)
    (path,) = filter(None, write(ParquetFiles(str(tmp_path), COLUMNS), *([10] * 20)))
    assert pq.read_metadata(path).num_row_groups == 4
    assert pq.read_table(path).num_rows == 200


def test_two_attempts_never_share_a_file(tmp_path: Path) -> None:
    """A name that is there already is refused, and what is there stays as it is."""
    files = ParquetFiles(str(tmp_path), COLUMNS)
    (path,) = filter(
        None, [one for b in files.written(batches(3), 0, 0, random.Random(1)) for one in b[FILE].to_pylist()]
    )
    with pytest.raises(SinkError, match="cannot write"):
        list(files.written(batches(4), 0, 0, random.Random(1)))
    assert pq.read_table(path).num_rows == 3


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_a_task_that_fails_leaves_no_file(
    tmp_path: Path, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a file is deleted, whatever ends the task."""
    monkeypatch.setattr(parquetfiles, "ROW_GROUP_ROWS", 1)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(5, 5)
        assert len(list(tmp_path.iterdir())) == 1
        raise kind

    with pytest.raises(kind):
        list(ParquetFiles(str(tmp_path), COLUMNS).written(failing(), 0, 0, random.Random()))
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_spark_gives_up_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark closes the generator."""
    monkeypatch.setattr(parquetfiles, "ROW_GROUP_ROWS", 1)
    told = ParquetFiles(str(tmp_path), COLUMNS).written(batches(5, 5), 0, 0, random.Random())
    next(told)
    told.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_begun_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk may be full, or the schema may be none of Parquet."""

    def fail(*_: object, **__: object) -> None:
        raise pa.ArrowNotImplementedError("no such type")

    monkeypatch.setattr(pq, "ParquetWriter", fail)
    with pytest.raises(pa.ArrowNotImplementedError):
        write(ParquetFiles(str(tmp_path), COLUMNS), 1)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_end_does_not_hide_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's errors are of several kinds."""

    close = pq.ParquetWriter.close

    def refuse(writer: pq.ParquetWriter) -> None:
        if writer.is_open:
            close(writer)
            raise pa.ArrowInvalid("cannot be closed")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    monkeypatch.setattr(pq.ParquetWriter, "close", refuse)
    with pytest.raises(SinkError, match="cannot write .*disk full"):
        write(ParquetFiles(str(tmp_path), COLUMNS), 1)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_mounted_is_told(tmp_path: Path) -> None:
    """The error says where, and what to do."""
    with pytest.raises(SinkError, match=r"has no directory .*nowhere: .*mounted there .*remove writer"):
        write(ParquetFiles(str(tmp_path / "nowhere"), COLUMNS), 1)


def test_the_option_is_private() -> None:
    """It reaches tasks as text; with the columns of a read it is no pipeline's."""
    files = ParquetFiles("/data", COLUMNS, "zstd")
    assert ParquetFiles.from_option(files.option()) == files
    assert FILE in DDL
    assert files.chosen(StructType().add(FILE, "string")) == COLUMNS
    with pytest.raises(OptionError, match="for pipelines alone"):
        files.chosen(StructType().add("value", "binary"))


BASE = 'checkpoint = "/c"\n[source]\nbrokers = "b:1"\ntopic = "t"\n'
PARSED = '[parse]\nformat = "json"\nschema = "a INT"\n[sink]\nformat = "parquet"\npath = "/rows"\n'
SINK = '[sink]\nformat = "parquet"\npath = "/d"\nwriter = "arrow"\n'


def test_a_source_whose_tasks_write_all_has_no_view(tmp_path: Path) -> None:
    """Another source without a sink has one: its malformed records may be kept."""
    source = '[[source]]\nview = "{0}"\nbrokers = "b:1"\ntopic = "{0}"\n'
    found = load(tmp_path, 'checkpoint = "/c"\n' + source.format("a") + source.format("b") + SINK + 'from = "a"\n')
    a, b = found.inputs
    assert (tasks_write_all(found, a), tasks_write_all(found, b)) == (True, False)


def load(tmp_path: Path, text: str) -> Declaration:
    """Return the declaration."""
    file = tmp_path / "p.toml"
    file.write_text(text)
    return Declaration.load(file)


def test_a_declaration_of_files_from_arrow(tmp_path: Path) -> None:
    """The sink says who writes."""
    (output,) = load(tmp_path, BASE + SINK).outputs
    assert isinstance(output.sink, FileSink)
    assert output.sink.writer == ARROW
    assert str(output.sink) == "Parquet in /d, written by the source's tasks"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BASE + SINK.replace('"parquet"', '"csv"'), r'writer: "arrow" writes Parquet, not csv'),
        (BASE + SINK.replace("/d", "s3a://bucket/d"), r"path: is on s3a:, but .* mounted"),
        (BASE + SINK + 'partition_by = "topic"\n', r"partition_by: contradicts writer"),
        (BASE + SINK + "files_per_batch = 1\n", r"files_per_batch: contradicts writer"),
        (BASE + SINK + '[sink.options]\ncompression = "brotli"\n', r"compression: 'brotli' is not known"),
        (BASE + SINK.replace("arrow", "me"), r"writer"),
        (BASE + '[[transform]]\nsql = "SELECT * FROM records"\n' + SINK, r"rows come from a \[\[transform\]\]"),
        (BASE + '[parse]\nformat = "json"\nschema = "a INT"\n' + SINK, r"rows come from \[parse\]"),
        (BASE + PARSED + SINK.replace("sink", "malformed"), r"\[malformed\] writer: \"arrow\" writes all records"),
    ],
)
def test_what_tasks_cannot_write_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """The declaration says which key, why, and what to do."""
    with pytest.raises(DeclarationError, match=problem):
        load(tmp_path, text)
