cimport cython


@cython.final
@cython.freelist(512)
cdef class Delivery:
    cdef public object key
    cdef public object value
    cdef public object headers
    cdef public object delivery_report_q
    cdef public object _batch
    cdef public Py_ssize_t _index
    cdef public long long _timestamp
