cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t

from pykafka.spark.formats.avrocolumns cimport Fields, Items, Leaf


@cython.final
cdef class Cursor:
    cdef bytes held
    cdef const unsigned char* data
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    cdef long long left
    cdef long long most

    cdef start(self, bytes held, Py_ssize_t at)

    cdef int spend(self, long long count) except -1

    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, number="unsigned long long", shift=int, byte="unsigned long long")
    cdef int64_t varint(self) except? -1

    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t take(self, long long size) except -1

    @cython.locals(count="long long", left="long long")
    cdef int64_t block(self) except -1


cdef class Step:
    cdef readonly str path

    cdef int read(self, Cursor cursor) except -1


cdef class Wrong(Step):
    cdef str _why
    cdef int read(self, Cursor cursor) except -1


cdef class Constant(Step):
    cdef object _column
    cdef object _value
    cdef list _values
    cdef long long _size
    cdef int read(self, Cursor cursor) except -1


cdef class Number(Step):
    cdef list _values
    cdef long long _least
    cdef long long _most
    cdef bint _real

    @cython.locals(number="long long")
    cdef int read(self, Cursor cursor) except -1


cdef class Time(Step):
    cdef list _values
    cdef tuple _limits
    cdef long long _times
    cdef long long _over
    cdef long long _least
    cdef long long _most
    cdef tuple _column_limits

    @cython.locals(number="long long")
    cdef int read(self, Cursor cursor) except -1


cdef class Boolean(Step):
    cdef list _values

    @cython.locals(byte=int)
    cdef int read(self, Cursor cursor) except -1


cdef class Real(Step):
    cdef list _values
    cdef Py_ssize_t _size
    cdef object _unpack

    @cython.locals(at=Py_ssize_t)
    cdef int read(self, Cursor cursor) except -1


cdef class Text(Step):
    cdef list _values

    @cython.locals(at=Py_ssize_t, size="long long")
    cdef int read(self, Cursor cursor) except -1


cdef class Bytes(Step):
    cdef list _values
    cdef Py_ssize_t _size

    @cython.locals(at=Py_ssize_t, size="long long")
    cdef int read(self, Cursor cursor) except -1


cdef class Digits(Step):
    cdef list _values
    cdef Py_ssize_t _size
    cdef tuple _written
    cdef tuple _wanted

    @cython.locals(at=Py_ssize_t, size="long long")
    cdef int read(self, Cursor cursor) except -1


cdef class Symbol(Step):
    cdef list _values
    cdef list _symbols

    @cython.locals(index="long long")
    cdef int read(self, Cursor cursor) except -1


cdef class Union(Step):
    cdef list _branches

    @cython.locals(index="long long", step=Step)
    cdef int read(self, Cursor cursor) except -1

    cdef int refuse(self, long long index) except -1


cdef class Member(Step):
    cdef list _present
    cdef Step _step
    cdef list _leaves
    cdef list _others

    @cython.locals(values=list)
    cdef int read(self, Cursor cursor) except -1


cdef class Record(Step):
    cdef list _present
    cdef list _steps

    @cython.locals(step=Step)
    cdef int read(self, Cursor cursor) except -1


cdef class Blocks(Step):
    cdef Items _column
    cdef list _steps
    cdef long long _width

    @cython.locals(total="long long", count="long long", step=Step)
    cdef int read(self, Cursor cursor) except -1


cdef class Nested(Step):
    cdef Step _step

    @cython.locals(
        left=list, numbers=list, steps=list, step=Step, inner=Step, record=Record, union=Union, blocks=Blocks,
        number="long long",
    )
    cdef int read(self, Cursor cursor) except -1


@cython.final
cdef class Parser:
    cdef Step _step
    cdef Cursor _cursor
    cdef readonly bint failed

    @cython.locals(first=Py_ssize_t, start=Py_ssize_t, data=bytes)
    cpdef Py_ssize_t follow(self, list records, Py_ssize_t number, bytes prefix) except -1

    cdef int _one(self, bytes data, Py_ssize_t start) except -1
