cdef class BufferPool:
    cdef public Py_ssize_t limit
    cdef public Py_ssize_t used
    cdef public BufferPool shared
    cdef public dict waiting
    cdef object _handler
    cdef object _lock
    cdef object _spenders

    cpdef give(self, Py_ssize_t nbytes)
