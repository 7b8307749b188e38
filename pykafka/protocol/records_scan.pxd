cimport cython

from pykafka.protocol.records_read cimport BatchReader, get_i32, get_i64, get_u32

cdef Py_ssize_t _HEADER
cdef Py_ssize_t _UNCOUNTED
cdef Py_ssize_t _MAGIC_AT
cdef int _SMALLEST_ENTRY
cdef int _SMALLEST_RECORD
cdef long long _LARGEST_OFFSET


cdef class RawBatch:
    cdef object _buffer
    cdef readonly int magic
    cdef readonly int codec
    cdef readonly int timestamp_type
    cdef readonly Py_ssize_t count
    cdef readonly unsigned int crc
    cdef readonly long long base_offset
    cdef readonly long long next_offset
    cdef readonly long long base_timestamp
    cdef readonly long long max_timestamp
    cdef readonly long long producer_id
    cdef readonly int producer_epoch
    cdef readonly int base_sequence
    cdef readonly int leader_epoch
    cdef readonly bint is_control
    cdef readonly bint is_transactional
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t end


@cython.locals(held="const unsigned char[::1]", data="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, length=int,
               magic=int, total=Py_ssize_t, raw=RawBatch, found=list)
cpdef tuple scan(buffer)

@cython.locals(raw=RawBatch, attributes=int, last="long long")
cdef RawBatch read_batch(object buffer, const unsigned char* data, Py_ssize_t at, Py_ssize_t stop)

@cython.locals(raw=RawBatch, magic=int, attributes=int, size=int, offset="long long")
cdef RawBatch read_entries(object buffer, const unsigned char* data, Py_ssize_t at, Py_ssize_t end)
