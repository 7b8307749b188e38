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


@cython.locals(at=Py_ssize_t, end=Py_ssize_t, messages=list)
cpdef call_each(entry, list messages, Py_ssize_t stop, error_of)
