cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcpy

from pykafka.protocol.records_read cimport BatchReader, parse_entry, parse_record

cdef Py_ssize_t _UNCOUNTED


cdef void put_i32(unsigned char* data, Py_ssize_t at, long long value) noexcept nogil

cdef void put_i64(unsigned char* data, Py_ssize_t at, long long value) noexcept nogil

@cython.locals(held="const unsigned char[::1]", source="const unsigned char*", data="unsigned char*", at=Py_ssize_t,
               count=Py_ssize_t, index=Py_ssize_t, end=Py_ssize_t, following=Py_ssize_t, timestamp="long long",
               key=Py_ssize_t, key_size=Py_ssize_t, value=Py_ssize_t, value_size=Py_ssize_t, target=Py_ssize_t,
               start=Py_ssize_t, magic=int, size=Py_ssize_t)
cdef object write_entries(object records, Py_ssize_t count, long long first_timestamp, int magic)

@cython.locals(held="const unsigned char[::1]", data="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t,
               following=Py_ssize_t, offset="long long", attributes=Py_ssize_t, count=Py_ssize_t, codecs=int,
               highest="long long", first="long long", is_ascending=bint)
cdef tuple count_entries(object entries)
