cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize

from pykafka.protocol.records_write cimport RecordBatchBuilder
from pykafka.utils.murmur2 cimport partition_for


@cython.final
cdef class BytesColumn:
    cdef const unsigned char[::1] _valid
    cdef const int[::1] _offsets
    cdef const unsigned char[::1] _data
    cdef Py_ssize_t _first
    cdef bint _with_nulls

    @cython.locals(start=int, found=bytes, base="const char*")
    cpdef bytes get(self, Py_ssize_t row)


@cython.final
cdef class TopicBatches:
    cdef readonly str topic
    cdef public Py_ssize_t cut_bytes
    cdef readonly int partitions
    cdef Py_ssize_t _max_bytes
    cdef object _emit
    cdef int _sticky
    cdef Py_ssize_t _sticky_until
    cdef list _builders
    cdef list _expected

    @cython.locals(row=Py_ssize_t, key=bytes, value=bytes, size=Py_ssize_t, partition=int, builder=RecordBatchBuilder)
    cpdef append(self, rows, long long timestamp, BytesColumn keys, BytesColumn values, headers, partitions)

    cdef int _checked(self, partition) except -1
    cdef int _without_key(self, Py_ssize_t size) except -1
