cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize

from pykafka.protocol.message cimport Message
from pykafka.record cimport Record

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(void* op)

# The positions of one record's parts: the next record (-1: the bytes are not a record), then timestamp and offset (in
# format 2: less the batch's), key position and size, value position and size, position of the header count.
ctypedef (Py_ssize_t, long long, long long, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t) Parts


@cython.locals(byte=int, shift=int, bits="unsigned long long")
cdef (long long, Py_ssize_t) get_varint(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil

cdef unsigned int get_u32(const unsigned char* data, Py_ssize_t at) noexcept nogil

cdef int get_i32(const unsigned char* data, Py_ssize_t at) noexcept nogil

@cython.locals(high="unsigned long long")
cdef long long get_i64(const unsigned char* data, Py_ssize_t at) noexcept nogil

@cython.locals(length="long long", timestamp="long long", offset="long long", key_size="long long",
               value_size="long long", stop=Py_ssize_t, key=Py_ssize_t, value=Py_ssize_t, headers=Py_ssize_t,
               count="long long", size="long long")
cdef Parts parse_record(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil

@cython.locals(size=int, stop=Py_ssize_t, magic=int, timestamp="long long", key=Py_ssize_t, key_size=int,
               value=Py_ssize_t, value_size=int)
cdef Parts parse_entry(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil

cdef bytes cut(const unsigned char* data, Py_ssize_t at, Py_ssize_t size)

@cython.locals(count="long long", size="long long", headers=list, name=bytes)
cdef list read_headers(const unsigned char* data, Py_ssize_t at, Py_ssize_t end)


@cython.final
cdef class BatchReader:
    cdef object _owner
    cdef const unsigned char[::1] _data
    cdef Py_ssize_t _at
    cdef Py_ssize_t _end
    cdef public bint check_entries
    cdef readonly int magic
    cdef readonly int codec
    cdef readonly int timestamp_type
    cdef readonly Py_ssize_t remaining
    cdef readonly long long offset
    cdef readonly long long next_offset
    cdef readonly long long base_offset
    cdef readonly long long base_timestamp
    cdef readonly long long append_time
    cdef public long long max_timestamp
    cdef public int partition_id
    cdef public int leader_epoch
    cdef public object partition
    cdef public object topic

    @cython.locals(fields=Parts, at=Py_ssize_t, following=Py_ssize_t, timestamp="long long", offset="long long", key=Py_ssize_t,
                   key_size=Py_ssize_t, value=Py_ssize_t, value_size=Py_ssize_t, headers=Py_ssize_t,
                   data="const unsigned char*", message=Message)
    cpdef Message next(self)

    @cython.locals(fields=Parts, at=Py_ssize_t, following=Py_ssize_t, timestamp="long long", offset="long long", key=Py_ssize_t,
                   key_size=Py_ssize_t, value=Py_ssize_t, value_size=Py_ssize_t, headers=Py_ssize_t,
                   data="const unsigned char*", record=Record)
    cpdef Record next_record(self)

    @cython.locals(fields=Parts, found="long long", end=Py_ssize_t, data="const unsigned char*")
    cpdef skip_to(self, long long offset)

    @cython.locals(fields=Parts, at=Py_ssize_t, found="long long", data="const unsigned char*")
    cpdef last_timestamp(self)

    cdef _finish(self)
    cdef _check(self, Py_ssize_t at, Py_ssize_t following)
    cdef bint _is_sound(self, Py_ssize_t at, Py_ssize_t following) except -1
