cimport cython
from libc.string cimport memcpy

from pykafka.protocol.records_read cimport BatchReader, Parts, get_varint, parse_entry, parse_record

cdef long long _LATEST


@cython.final
cdef class BinaryColumn:
    cdef Py_ssize_t rows
    cdef Py_ssize_t nbytes
    cdef Py_ssize_t nulls
    cdef Py_ssize_t _row
    cdef Py_ssize_t _used
    cdef int[::1] _ends
    cdef unsigned char[::1] _data
    cdef unsigned char[::1] _valid
    cdef object _buffers

    cdef void count(self, Py_ssize_t size) noexcept nogil

    @cython.locals(row=Py_ssize_t, used=Py_ssize_t)
    cdef void put(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept nogil

    cpdef allocate(self, pa)
    cpdef finish(self, pa, kind)


@cython.final
cdef class ListColumn:
    cdef Py_ssize_t rows
    cdef Py_ssize_t nulls
    cdef Py_ssize_t _row
    cdef Py_ssize_t _used
    cdef int[::1] _ends
    cdef unsigned char[::1] _valid
    cdef object _buffers
    cdef BinaryColumn keys
    cdef BinaryColumn values

    @cython.locals(left="long long", size="long long", used=Py_ssize_t)
    cdef Py_ssize_t count(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil

    @cython.locals(row=Py_ssize_t, left="long long", size="long long")
    cdef void put(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil

    cdef void count_null(self) noexcept nogil

    cdef void put_null(self) noexcept nogil

    cpdef allocate(self, pa)
    cpdef finish(self, pa, kind)


@cython.final
cdef class Columns:
    cdef BinaryColumn keys
    cdef BinaryColumn values
    cdef ListColumn headers
    cdef bint with_keys
    cdef bint with_values
    cdef bint with_headers
    cdef readonly Py_ssize_t rows
    cdef Py_ssize_t nbytes
    cdef Py_ssize_t timeless
    cdef readonly bint full
    cdef readonly bint ended
    cdef list _segments
    cdef readonly dict last_offsets
    cdef Py_ssize_t _row
    cdef long long[::1] _offsets
    cdef long long[::1] _timestamps
    cdef unsigned char[::1] _valid
    cdef object _buffers

    @cython.locals(data="const unsigned char*", at=Py_ssize_t, stop=Py_ssize_t, left=Py_ssize_t, rows=Py_ssize_t,
                   size=Py_ssize_t, offset="long long", previous="long long", base="long long", limit="long long",
                   time="long long", time_base="long long", append_time="long long", modern=bint, bad=bint, fields=Parts,
                   wanted=Py_ssize_t, sound=Py_ssize_t)
    cpdef measure(self, BatchReader reader, long long end, Py_ssize_t max_rows, Py_ssize_t max_bytes)

    @cython.locals(data="const unsigned char*", at=Py_ssize_t, stop=Py_ssize_t, left=Py_ssize_t, row=Py_ssize_t,
                   offset="long long", base="long long", time="long long", time_base="long long",
                   append_time="long long", modern=bint, fields=Parts)
    cdef _fill(self, BatchReader reader, Py_ssize_t at, Py_ssize_t rows)

    cdef _allocate(self, pa)


@cython.locals(data="const unsigned char*", at=Py_ssize_t, following=Py_ssize_t, sound=Py_ssize_t)
cdef Py_ssize_t count_sound(BatchReader reader, Py_ssize_t rows) except -1
