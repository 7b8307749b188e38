cimport cython


cdef class InFlightBatch:
    cdef public object batch
    cdef public Py_ssize_t count
    cdef public long long producer_id
    cdef public int epoch
    cdef public long long sequence
    cdef public bint on_wire
    cdef public bint outcome_unknown
    cdef public bint topic_missing
    cdef public bint bypassed
    cdef public bint broken
    cdef public bint halved
    cdef public bint overtaken
    cdef public bint skipped
    cdef public bint doubted
    cdef public bint reshaped
    cdef object __weakref__


cdef class InFlightWindow:
    cdef public object batches
    cdef public long long producer_id
    cdef public int epoch
    cdef public long long spent_id
    cdef public bint plain
    cdef public Py_ssize_t on_wire
    cdef public long long _sequence
    cdef public bint _acknowledged
    cdef public bint _hole
    cdef object __weakref__

    cpdef adopt(self, long long producer_id, int epoch)
    cpdef bint may_begin(self, bint numbered=*) except -1
    @cython.locals(in_flight=InFlightBatch)
    cpdef InFlightBatch begin(self, batch, Py_ssize_t count)
    cpdef number(self, InFlightBatch in_flight)
    cdef _finish(self, InFlightBatch in_flight)
    @cython.locals(in_flight=InFlightBatch)
    cpdef _renumber(self)
    @cython.locals(in_flight=InFlightBatch)
    cdef _strip(self)
    cdef _spend(self)
    cpdef unsent(self, InFlightBatch in_flight)
    cpdef bint acknowledge(self, InFlightBatch in_flight) except -1
    cpdef _judge(self, InFlightBatch in_flight, error)
