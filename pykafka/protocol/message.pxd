cimport cython


@cython.freelist(512)
cdef class Message:
    cdef public object value
    cdef public object partition_key
    cdef public object headers
    cdef public object partition
    cdef public object delivery_report_q
    cdef public object _batch
    cdef public Py_ssize_t _index
    cdef public long long _offset
    cdef public long long _timestamp
    cdef public int partition_id
    cdef public int compression_type
    cdef public int produce_attempt
    cdef public int protocol_version
