cdef class ReadTurn:
    cdef object _lock
    cdef readonly object release
    cdef object _resume
    cdef object _requests
    cdef object _now
    cdef bint _helping
    cdef bint _yielding
    cdef bint _wanted
    cdef object _grace_s
    cdef object __weakref__

    cpdef bint help(self, bint lasting=*) except -1
    cpdef answer_due(self)
    cdef bint _left_alone(self) except -1


cdef class WriteTurn:
    cdef object _handler
    cdef object _address
    cdef object _end
    cdef readonly object _lock
    cdef public object leave
    cdef public bint is_written
    cdef Py_ssize_t _writers
    cdef object _unbegun
    cdef object __weakref__

    cpdef take(self, double deadline)
    cpdef begin(self)
