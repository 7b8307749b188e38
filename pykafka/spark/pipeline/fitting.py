"""The columns of rows beside those of the table that they go to: which is which, and what one of them lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from pykafka.spark.pipeline.errors import TableMismatchError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Names of our own columns while a micro-batch is merged.
RESERVED = ("pykafka_gone", "_pykafka_gone", "_pykafka_rank")


@dataclass(frozen=True)
class Fit:
    """How the columns of rows and of a table fit.

    :param pairs: the columns that both have: the rows' name, and the table's
    :param unknown: columns of the rows that the table lacks
    :param unknown_fields: fields within columns of both that the table lacks, as "address.street"
    :param lacking: columns of the table that the rows lack
    :param lacking_fields: fields within columns of both that the rows lack
    """

    pairs: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    lacking_fields: tuple[str, ...] = ()


def compare(rows: StructType, table: StructType, case_sensitive: bool) -> Fit:
    """Return how rows fit a table.

    :param rows: their columns
    :param table: its columns
    :param case_sensitive: whether names that differ in case are different ones, as Spark's setting has it
    """
    pairs: list[tuple[str, str]] = []
    unknown: list[str] = []
    lacking: list[str] = []
    fields: list[tuple[str, bool]] = []
    for mine, theirs in _matched(rows, table, case_sensitive):
        if mine is not None and theirs is not None:
            pairs.append((mine.name, theirs.name))
            fields += _within(mine.dataType, theirs.dataType, case_sensitive, _shown(mine.name))
        elif mine is not None:
            unknown.append(mine.name)
        elif theirs is not None:
            lacking.append(theirs.name)
    return Fit(
        tuple(pairs),
        tuple(unknown),
        tuple(path for path, is_unknown in fields if is_unknown),
        tuple(lacking),
        tuple(path for path, is_unknown in fields if not is_unknown),
    )


def is_on(spark: SparkSession, setting: str) -> bool:
    """Return whether a setting of Spark that is false by default is true; Spark takes "TRUE" and " true", too."""
    return str(spark.conf.get(setting, "false")).strip().lower() == "true"


def names_only(names: Sequence[str]) -> StructType:
    """Return columns of which nothing but the names counts."""
    return StructType([StructField(name, DataType()) for name in names])


def _matched(
    rows: StructType, table: StructType, case_sensitive: bool
) -> Iterator[tuple[StructField | None, StructField | None]]:
    """Yield each field of rows with that of the table; then the table's others."""
    left = {item.name: item for item in table.fields}
    # One with just this name first: a database may have "id" and "ID".
    exact = {item.name for item in rows.fields if item.name in left}
    for item in rows.fields:
        found = left.pop(item.name, None)
        if found is None and not case_sensitive:
            near = [name for name in left if name.lower() == item.name.lower() and name not in exact]
            found = left.pop(near[0]) if len(near) == 1 else None
        yield item, found
    for item in left.values():
        yield None, item


def _within(mine: DataType, theirs: DataType, case_sensitive: bool, path: str) -> Iterator[tuple[str, bool]]:
    """Yield the paths of fields that only one of two types has, and whether it is the rows'."""
    if isinstance(mine, StructType) and isinstance(theirs, StructType):
        for one, other in _matched(mine, theirs, case_sensitive):
            if one is not None and other is not None:
                yield from _within(one.dataType, other.dataType, case_sensitive, f"{path}.{_shown(one.name)}")
            elif one is not None:
                yield f"{path}.{_shown(one.name)}", True
            elif other is not None:
                yield f"{path}.{_shown(other.name)}", False
    elif isinstance(mine, ArrayType) and isinstance(theirs, ArrayType):
        yield from _within(mine.elementType, theirs.elementType, case_sensitive, f"{path}.element")
    elif isinstance(mine, MapType) and isinstance(theirs, MapType):
        yield from _within(mine.keyType, theirs.keyType, case_sensitive, f"{path}.key")
        yield from _within(mine.valueType, theirs.valueType, case_sensitive, f"{path}.value")


def refuse_unknown(fit: Fit, sink: object, hint: str = "") -> None:
    """Raise if the rows have what the table lacks: it would be lost.

    :param sink: for the text
    :param hint: how the format can add columns by itself; ""
    :raises TableMismatchError: names all of it
    """
    names = [*map(_shown, fit.unknown), *fit.unknown_fields]
    if names:
        raise TableMismatchError(
            f"{sink} has no {_listed(names)}, as the rows have: add it to the table by ALTER TABLE, or leave it out in "
            f"the last step{hint}"
        )


def refuse_gone(sink: object, done: int | None) -> None:
    """Raise if a table that is not there should have rows of earlier micro-batches.

    :param done: the number of the last one; None: there is none
    :raises TableMismatchError: says what to do
    """
    if done is not None:
        raise TableMismatchError(
            f"{sink} is not there, and the checkpoint says that it has micro-batch {done}: a new table would lack the rows "
            "up to that. Bring it back, or correct its name; take a new checkpoint to write all again; or create the table "
            "yourself to continue without them"
        )


def refuse_reserved(names: Sequence[str], sink: object) -> None:
    """Raise if rows have a column with a name of ours: a merge would take it for its own.

    :raises TableMismatchError: names it
    """
    for name in names:
        if name.lower() in RESERVED:
            raise TableMismatchError(
                f"{sink} cannot take a column {name!r}, which a merge uses itself: rename it in a step"
            )


def _listed(names: Sequence[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


def _shown(name: str) -> str:
    return f"`{name}`" if "." in name or "`" in name else name
