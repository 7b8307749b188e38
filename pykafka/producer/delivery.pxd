cimport cython


cdef extern from "Python.h":
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1


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


@cython.locals(at=Py_ssize_t, end=Py_ssize_t, messages=list, contexts=list)
cpdef call_each(entry, list messages, list contexts, Py_ssize_t stop, error_of)
