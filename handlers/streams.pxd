cdef class PollWaiter:
    cdef object _poll

    cpdef bint wait(self, double timeout) except -1


cdef class SocketStream:
    cdef object _has_ended
    cdef object _send_max
    cdef public object socket
    cdef readonly object _make_waiter
    cdef public object _breathe
    cdef object _reader
    cdef object _writer
    cdef object _end_poll
    cdef bint _reading
    cdef bint _writing
    cdef bint _closed
    cdef object _pid
    cdef bint _polls
    cdef bint _emptied
    cdef object __weakref__

    cpdef _recv_into(self, buffer)
    cpdef _send(self, views)
    cdef _wait_readable(self, double deadline)
    cdef _wait_writable(self, double deadline)
    cdef _wait(self, waiter, double deadline, what)
    cdef _check_open(self)
    cdef _let_go(self)
