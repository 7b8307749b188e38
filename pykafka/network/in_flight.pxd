cimport cython

from pykafka.metrics.listener cimport ClientListener


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


cdef class RequestState(ResponseFuture):
    cdef public object request
    cdef public int version
    cdef public object peer
    cdef public long long correlation_id
    cdef public double deadline
    cdef public double latest
    cdef public double early
    cdef public double silence_s
    cdef public double sent_at
    cdef public Py_ssize_t sent_bytes
    cdef public bint unsent
    cdef public object log
    cdef public object _decoded


cdef class InFlightRequests:
    cdef public ClientListener listener
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

    cpdef add(self, RequestState request)
    @cython.locals(request=RequestState)
    cpdef RequestState pop_if_oldest(self, long long correlation_id)
    @cython.locals(request=RequestState, first=double)
    cpdef bint is_overdue(self, double now) except -1
    cpdef throttle(self, throttle, double now)
