cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.time cimport time as system_time
from libc.string cimport memcpy

cdef Py_ssize_t _HEADER
cdef bytes _NO_HEADERS


@cython.locals(size=int)
cdef int varint_size(long long value) noexcept nogil

@cython.locals(bits="unsigned long long")
cdef Py_ssize_t put_varint(unsigned char* data, Py_ssize_t at, long long value) noexcept nogil


@cython.final
cdef class RecordBatchBuilder:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t with_headers
    cdef readonly long long first_timestamp
    cdef readonly long long max_timestamp
    cdef readonly long long last_timestamp
    cdef object _clock
    cdef Py_ssize_t _max_size
    cdef Py_ssize_t _expected
    cdef object _buffer
    cdef unsigned char* _data
    cdef Py_ssize_t _used
    cdef Py_ssize_t _capacity

    @cython.locals(key_size=Py_ssize_t, value_size=Py_ssize_t, delta="long long", index=Py_ssize_t, length=Py_ssize_t,
                   needed=Py_ssize_t, block=bytes)
    cpdef Py_ssize_t append(self, long long timestamp, key, value, headers) except -1

    cdef long long _now(self, long long timestamp) except *

    cdef int _reserve(self, Py_ssize_t needed) except -1

    @cython.locals(at=Py_ssize_t, data="unsigned char*")
    cdef int _put(self, Py_ssize_t length, long long delta, key, Py_ssize_t key_size, value, Py_ssize_t value_size,
                  bytes block) except -1
