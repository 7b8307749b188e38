cdef class ResponseFuture:
    cdef public object _handler
    cdef public list _callbacks
    cdef public bint done
    cdef public object response
    cdef public object error
    cdef object __weakref__

    cpdef set_response(self, response)
    cpdef set_error(self, error)
    cpdef add_done_callback(self, fn)
    cdef _call_back(self)


cdef class InFlightRequests:
    cdef object _now
    cdef public double max_idle_s
    cdef object _lock
    cdef dict _requests
    cdef object _ids
    cdef object _drained
    cdef readonly bint _closing
    cdef object _pid
    cdef public double none_due_before
    cdef public object answering
    cdef public object unread
    cdef public object turn
    cdef public object error
    cdef public bint proven
    cdef public bint interrupted
    cdef public bint ended_unused
    cdef public double since
    cdef public double used_at
    cdef public double throttled_until
    cdef public double late
    cdef object __weakref__
