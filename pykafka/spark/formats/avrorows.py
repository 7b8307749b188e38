"""Bytes of Avro to columns: steps that read one type each.

It is strict: what no writer makes is an error, such as branch -1 of a union, a boolean 7, or a number of more than 64 bits.
Cython compiles this module if the .pxd beside it was built.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from math import gcd
from struct import Struct
from typing import Any

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

from pykafka.spark.formats.avrocolumns import Fields, Items, Leaf

if not cython.compiled:
    from pykafka.compiled.cython import PyBytes_FromStringAndSize, PyUnicode_DecodeUTF8

#: The limits of Avro's whole numbers.
INT, LONG = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
_REALS = {4: Struct("<f").unpack_from, 8: Struct("<d").unpack_from}
#: No digit is lost by it.
_EXACT = Context(prec=1_000)


class Cursor:
    """Where a record is read.

    :param most: how many values it may become beyond one for each byte
    """

    __slots__ = ("at", "data", "end", "held", "left", "most")

    def __init__(self, most: int) -> None:
        self.held = self.data = b""
        self.at = self.end = self.left = 0
        self.most = most

    def start(self, held: bytes, at: int) -> None:
        """Go to a position of a record."""
        self.held = held
        self.data = held
        self.at = at
        self.end = len(held)
        self.left = self.most + self.end - at

    def spend(self, count: int) -> None:
        """Count values that a record becomes.

        :raises ValueError: it becomes too many
        """
        self.left -= count
        if self.left < 0:
            raise ValueError(f"it becomes more than {self.most:,} values beyond one a byte: such records are not read")

    def varint(self) -> int:
        """Read a whole number.

        :raises EOFError: the record ends within
        :raises ValueError: it has more than 64 bits
        """
        at = self.at
        end = self.end
        number = 0
        shift = 0
        while at < end:
            byte = self.data[at]
            at += 1
            if shift == 63 and byte > 1:
                raise ValueError("a number has more than 64 bits")
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.at = at
                return (number >> 1) ^ -(number & 1)
            shift += 7
        raise EOFError("the record ends within a number")

    def take(self, size: int) -> int:
        """Go behind so many bytes; return where they begin.

        :raises EOFError: there are fewer
        :raises ValueError: it is negative
        """
        at = self.at
        if size > self.end - at:
            raise EOFError(f"the record ends after {self.end - at} of {size} bytes")
        if size < 0:
            raise ValueError(f"a length is {size}")
        self.at = at + size
        return at

    def block(self) -> int:
        """Read how many items of an array or a map follow, each of at least a byte.

        :raises EOFError: the record cannot have so many
        """
        count = self.varint()
        left = self.end - self.at
        if count > left or count < -left:
            raise EOFError(f"the record has {left} bytes left for {count} items")
        if count < 0:
            count = -count
            if self.varint() < 0:
                raise ValueError("a block of items has a negative size")
        return count


class Step:
    """Reads one value of a type into a column; without a column it skips it.

    :param path: of the field, for errors
    """

    def __init__(self, path: str) -> None:
        self.path = path or "the value"

    def read(self, cursor: Cursor) -> None:
        """Read a value.

        :raises EOFError: the record ends within
        :raises ValueError: the bytes are not of the type
        """
        raise NotImplementedError


class Wrong(Step):
    """A value that cannot be a value of its column.

    :param why: the reason
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path)
        self._why = why

    def read(self, cursor: Cursor) -> None:
        raise ValueError(f"{self.path} {self._why}")


class Constant(Step):
    """A value that is not in the record: a default, or null.

    :param value: as `put` takes it
    """

    def __init__(self, path: str, column: Any, value: Any) -> None:
        super().__init__(path)
        self._column = column
        self._value = value
        self._values = column.values if isinstance(column, Leaf) else None
        self._size = values_in(value)

    def read(self, cursor: Cursor) -> None:
        if self._values is not None:
            self._values.append(self._value)
        elif self._column is not None:
            cursor.spend(self._size)
            self._column.put(self._value)


def values_in(value: Any) -> int:
    """Return how many values are in a default."""
    if isinstance(value, dict):
        return sum(map(values_in, value.values()))
    return sum(map(values_in, value)) if isinstance(value, list) else 1


class Number(Step):
    """A whole number.

    :param limits: what the type has, least and most
    :param real: whether the column has floating point
    """

    def __init__(self, path: str, column: Leaf | None, limits: tuple[int, int], real: bool = False) -> None:
        super().__init__(path)
        self._values = None if column is None else column.values
        self._least, self._most = limits
        self._real = real

    def read(self, cursor: Cursor) -> None:
        number = cursor.varint()
        if number < self._least or number > self._most:
            raise ValueError(f"{self.path} has {number}, which is no int")
        if self._values is not None:
            if self._real:
                self._values.append(float(number))
            else:
                self._values.append(number)


class Time(Step):
    """A whole number that counts in one unit, for a column that counts in another one.

    :param limits: what the type has, least and most
    :param times: factor
    :param over: divisor; rounded down
    :param column_limits: what the column has
    """

    def __init__(
        self,
        path: str,
        column: Leaf,
        limits: tuple[int, int],
        times: int,
        over: int,
        column_limits: tuple[int, int],
    ) -> None:
        super().__init__(path)
        self._values = column.values
        self._limits = limits
        self._column_limits = column_limits
        common = gcd(times, over)
        self._times, self._over = times // common, over // common
        # The numbers whose conversion is within all limits, and within 64 bits on its way: of 1000/1 and 1/1000 it is.
        self._least = max(limits[0], -(-column_limits[0] * self._over // self._times))
        self._most = min(limits[1], -(-(column_limits[1] + 1) * self._over // self._times) - 1)
        if 1 not in (self._times, self._over):
            self._least, self._most = 1, 0

    def read(self, cursor: Cursor) -> None:
        number = cursor.varint()
        if self._least <= number <= self._most:
            self._values.append(number * self._times // self._over)
        elif not self._limits[0] <= number <= self._limits[1]:
            raise ValueError(f"{self.path} has {number}, which is no int")
        else:
            self._values.append(converted(self.path, number, self._times, self._over, self._column_limits))


def converted(path: str, number: Any, times: Any, over: Any, limits: tuple[int, int]) -> Any:
    """Return a time in another unit.

    :raises ValueError: it is out of the limits
    """
    found = number * times // over
    if not limits[0] <= found <= limits[1]:
        raise ValueError(f"{path} has the time {number}, which is out of bounds in the unit of the column")
    return found


class Boolean(Step):
    """A boolean."""

    def __init__(self, path: str, column: Leaf | None) -> None:
        super().__init__(path)
        self._values = None if column is None else column.values

    def read(self, cursor: Cursor) -> None:
        byte = cursor.data[cursor.take(1)]
        if byte > 1:
            raise ValueError(f"{self.path} has {byte}, which is no boolean")
        if self._values is not None:
            self._values.append(byte == 1)


class Real(Step):
    """A number of floating point.

    :param size: 4 or 8 (bytes)
    """

    def __init__(self, path: str, column: Leaf | None, size: int) -> None:
        super().__init__(path)
        self._values = None if column is None else column.values
        self._size = size
        self._unpack = _REALS[size]

    def read(self, cursor: Cursor) -> None:
        at = cursor.take(self._size)
        if self._values is not None:
            self._values.append(self._unpack(cursor.held, at)[0])


class Text(Step):
    """A string, or bytes for a column of strings."""

    def __init__(self, path: str, column: Leaf) -> None:
        super().__init__(path)
        self._values = column.values

    def read(self, cursor: Cursor) -> None:
        size = cursor.varint()
        at = cursor.take(size)
        if cython.compiled:
            self._values.append(PyUnicode_DecodeUTF8(cython.cast("const char*", cursor.data) + at, size, cython.NULL))
        else:
            self._values.append(cursor.data[at : at + size].decode())


class Bytes(Step):
    """Bytes of any length, or of a fixed one; a string, which is skipped or is for a column of bytes.

    :param size: the fixed length; -1 for any
    """

    def __init__(self, path: str, column: Leaf | None, size: int = -1) -> None:
        super().__init__(path)
        self._values = None if column is None else column.values
        self._size = size

    def read(self, cursor: Cursor) -> None:
        size = self._size if self._size >= 0 else cursor.varint()
        at = cursor.take(size)
        if self._values is not None:
            if cython.compiled:
                found = PyBytes_FromStringAndSize(cython.cast("const char*", cursor.data) + at, size)
            else:
                found = cursor.data[at : at + size]
            self._values.append(found)


class Digits(Step):
    """A decimal: a whole number of any length, or of a fixed one.

    :param size: the fixed length; -1 for any
    :param written: digits, and those of them behind the point, by which it was written
    :param wanted: the same of the column
    """

    def __init__(self, path: str, column: Leaf, size: int, written: tuple[int, int], wanted: tuple[int, int]) -> None:
        super().__init__(path)
        self._values = column.values
        self._size = size
        self._written = written
        self._wanted = wanted

    def read(self, cursor: Cursor) -> None:
        size = self._size if self._size >= 0 else cursor.varint()
        at = cursor.take(size)
        if size == 0:
            raise ValueError(f"{self.path} is a decimal without bytes")
        number: Any = int.from_bytes(cursor.held[at : at + size], "big", signed=True)
        digits, scale = self._written
        if abs(number) >= 10**digits:
            raise ValueError(f"{self.path} has more than the {digits} digits of its decimal")
        digits, wanted = self._wanted
        if wanted >= scale:
            number *= 10 ** (wanted - scale)
        else:
            number, rest = divmod(number, 10 ** (scale - wanted))
            if rest:
                raise ValueError(f"{self.path} has more than the {wanted} digits behind the point of its column")
        if abs(number) >= 10**digits:
            raise ValueError(f"{self.path} has more than the {digits} digits of its column")
        self._values.append(Decimal(number).scaleb(-wanted, _EXACT))


class Symbol(Step):
    """A value of an enum.

    :param symbols: what each is in the column; None if the column cannot have it
    """

    def __init__(self, path: str, column: Leaf | None, symbols: Sequence[str | None]) -> None:
        super().__init__(path)
        self._values = None if column is None else column.values
        self._symbols = list(symbols)

    def read(self, cursor: Cursor) -> None:
        index = cursor.varint()
        if index < 0 or index >= len(self._symbols):
            raise ValueError(f"{self.path} has symbol {index} of an enum of {len(self._symbols)}")
        if self._values is not None:
            symbol = self._symbols[index]
            if symbol is None:
                raise ValueError(f"{self.path} has symbol {index}, which the enum of the rows lacks, without a default")
            self._values.append(symbol)


class Union(Step):
    """A value of one of several types.

    :param branches: for each of them
    """

    def __init__(self, path: str, branches: Iterable[Step]) -> None:
        super().__init__(path)
        self._branches = list(branches)

    def read(self, cursor: Cursor) -> None:
        index = cursor.varint()
        if 0 <= index < len(self._branches):
            step = self._branches[index]
            step.read(cursor)
        else:
            self.refuse(index)

    def refuse(self, index: int) -> None:
        """Refuse a type that the union does not have.

        :raises ValueError: in any case
        """
        raise ValueError(f"{self.path} has branch {index} of a union of {len(self._branches)}")


class Member(Step):
    """A value of a union of several types, which is a struct with a column for each type.

    :param column: of the structs
    :param step: for the value
    :param others: the columns of the other types, which become null
    """

    def __init__(self, path: str, column: Fields, step: Step, others: Iterable[Any]) -> None:
        super().__init__(path)
        self._present = column.present
        self._step = step
        left = list(others)
        self._leaves = [one.values for one in left if isinstance(one, Leaf)]
        self._others = [one for one in left if not isinstance(one, Leaf)]

    def read(self, cursor: Cursor) -> None:
        self._step.read(cursor)
        for values in self._leaves:
            values.append(None)
        for column in self._others:
            column.put(None)
        self._present.append(True)


class Record(Step):
    """A record: its fields one after the other.

    :param column: None to skip it
    :param steps: for the fields, and for fields of the column that it lacks; a list that may be filled later
    """

    def __init__(self, path: str, column: Fields | None, steps: list[Step]) -> None:
        super().__init__(path)
        self._present = None if column is None else column.present
        self._steps = steps

    def read(self, cursor: Cursor) -> None:
        for step in self._steps:
            step.read(cursor)
        if self._present is not None:
            self._present.append(True)


class Blocks(Step):
    """An array, or a map.

    :param column: None to skip it
    :param steps: for an item, or for a key and an item
    :param width: how many values an item becomes, if it has no lists
    """

    def __init__(self, path: str, column: Items | None, *steps: Step, width: int = 0) -> None:
        super().__init__(path)
        self._column = column
        self._steps = list(steps)
        self._width = width

    def read(self, cursor: Cursor) -> None:
        total = 0
        count = cursor.block()
        while count:
            total += count
            # An item of one byte may have a thousand fields, which are null or have defaults.
            cursor.spend(count * self._width)
            while count:
                count -= 1
                for step in self._steps:
                    step.read(cursor)
            count = cursor.block()
        if self._column is not None:
            self._column.close(total)


class Nested(Step):
    """A value of a type that may contain itself, which is skipped: in a loop, as it nests as deep as a record is long.

    :param step: skips the value; steps below may lead to it again
    """

    def __init__(self, path: str, step: Step) -> None:
        super().__init__(path)
        self._step = step

    def read(self, cursor: Cursor) -> None:
        # Beside each step is a number: of the next field of a record, or how many steps of a block of items are left.
        left, numbers = [self._step], [0]
        while left:
            step = left.pop()
            number = numbers.pop()
            if isinstance(step, Union):
                union = step
                number = cursor.varint()
                if number < 0 or number >= len(union._branches):
                    union.refuse(number)
                left.append(union._branches[number])
                numbers.append(0)
                continue
            if isinstance(step, Record):
                record = step
                steps = record._steps
                if number == len(steps):
                    continue
                inner = steps[number]
                number += 1
            elif isinstance(step, Blocks):
                blocks = step
                steps = blocks._steps
                if number == 0:
                    number = cursor.block() * len(steps)
                    if number == 0:
                        continue
                inner = steps[(len(steps) - number) % len(steps)]
                number -= 1
            else:
                step.read(cursor)
                continue
            left.append(step)
            numbers.append(number)
            left.append(inner)
            numbers.append(0)


class Parser:
    """Reads records of one writer's schema.

    :param step: for the record
    :param most: how many values a record may become beyond one for each byte
    :ivar failed: whether the last record that `follow` has read is none of its schema, and part of it is in the columns
    """

    def __init__(self, step: Step, most: int) -> None:
        self._step = step
        self._cursor = Cursor(most)
        self.failed = False

    def __call__(self, data: bytes, start: int) -> None:
        """Read a record to the columns.

        :param data: the bytes
        :param start: where the record begins
        :raises EOFError: it is cut off
        :raises ValueError: it is none of its schema, or there are bytes behind it
        """
        self._one(data, start)

    def follow(self, records: list[bytes | None], number: int, prefix: bytes) -> int:
        """Read records to the columns, as long as they begin alike and are of the schema; return how many.

        :param records: the records
        :param number: of the first one to read
        :param prefix: their first bytes
        """
        first, start = number, len(prefix)
        self.failed = False
        while number < len(records):
            data = records[number]
            if data is None or data[:start] != prefix:
                break
            try:
                self._one(data, start)
            except Exception:  # noqa: BLE001 - it is read once more, for its reason
                self.failed = True
                break
            number += 1
        return number - first

    def _one(self, data: bytes, start: int) -> None:
        self._cursor.start(data, start)
        self._step.read(self._cursor)
        if self._cursor.at != self._cursor.end:
            left = self._cursor.end - self._cursor.at
            raise ValueError(f"{left} of {len(data) - start} bytes are left behind the value")
