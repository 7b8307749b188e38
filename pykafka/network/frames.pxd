cdef class FrameReader:
    cdef object _stream
    cdef object _handler
    cdef bint _is_tls
    cdef Py_ssize_t _frame_max
    cdef Py_ssize_t _read_ahead
    cdef bytearray _staged
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef object _frame
    cdef Py_ssize_t _filled
    cdef bint _any

    cdef object _take(self)
