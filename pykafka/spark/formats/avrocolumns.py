"""Columns of values that the steps of Avro append to; Cython compiles this module if the .pxd beside it was built."""

from __future__ import annotations

from typing import Any


class Leaf:
    """A column of values.

    :ivar values: so far, None for null
    """

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: list[Any] = []

    def put(self, value: Any) -> None:
        """Append a value, or null."""
        self.values.append(value)

    def cut(self, rows: int) -> None:
        """Forget all rows but the first ones."""
        del self.values[rows:]


class Fields:
    """A column of structs: as many rows in each field, null if a struct is.

    :param columns: the fields, by name
    :ivar present: whether each struct is there
    """

    __slots__ = ("columns", "present")

    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = columns
        self.present: list[bool] = []

    def put(self, value: Any) -> None:
        """Append a struct from a dict, or null."""
        self.present.append(value is not None)
        for name, one in self.columns.items():
            one.put(None if value is None else value.get(name))

    def cut(self, rows: int) -> None:
        """Forget all rows but the first ones."""
        del self.present[rows:]
        for one in self.columns.values():
            one.cut(rows)


class Items:
    """A column of lists, or of maps.

    :param columns: of the items; of the keys and the items of maps
    :ivar ends: of each list, as a row of the items
    :ivar present: whether each list is there
    """

    __slots__ = ("columns", "ends", "present")

    def __init__(self, *columns: Any) -> None:
        self.columns = columns
        self.ends: list[int] = []
        self.present: list[bool] = []

    def put(self, value: Any) -> None:
        """Append a list, or a map from a dict, or null."""
        for one in value or ():
            for column, item in zip(
                self.columns, (one, value[one]) if isinstance(value, dict) else (one,), strict=True
            ):
                column.put(item)
        self.close(len(value or ()))
        if value is None:
            self.present[len(self.present) - 1] = False

    def close(self, count: int) -> None:
        """Make a list of the last items."""
        start = self.end()
        if count > 1 and len(self.columns) > 1 and len(set(self.columns[0].values[start:])) < count:
            raise ValueError("a map has a key twice")
        self.ends.append(start + count)
        self.present.append(True)

    def end(self) -> int:
        """Return where the last list ends, as a row of the items."""
        last = len(self.ends)
        return self.ends[last - 1] if last else 0

    def cut(self, rows: int) -> None:
        """Forget all rows but the first ones."""
        del self.ends[rows:]
        del self.present[rows:]
        for one in self.columns:
            one.cut(self.end())
