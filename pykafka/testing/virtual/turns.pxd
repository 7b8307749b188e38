cimport cython


cdef double _WAIT_MAX_S


cdef class Waiter:
    cdef public object number
    cdef public object name
    cdef public object greenlet
    cdef public long turn
    cdef public bint is_parked
    cdef public bint is_woken
    cdef public bint has_ended
    cdef public object thrown
    cdef public long waits_left


cdef class Turns:
    cdef public double preemption
    cdef public object draw
    cdef public long long clock_us
    cdef public Waiter current
    cdef public long turns
    cdef public bint is_closing
    cdef public long _look_at
    cdef public dict _workers
    cdef long _numbers
    cdef long _timer_numbers
    cdef public list _ready
    cdef public list _timers
    cdef public object _hub
    cdef public long _still_since

    cpdef double now(self)
    cpdef long next_number(self)
    cpdef until(self, timeout)
    @cython.locals(exact=double, whole=cython.longlong)
    cpdef long long deadline(self, double timeout) except -1
    cpdef check_inside(self)
    @cython.locals(worker=Waiter)
    cpdef bint park(self, until_us) except -1
    @cython.locals(worker=Waiter)
    cpdef give_way(self)
    cpdef bint wake(self, Waiter worker) except -1
    cpdef wake_at(self, Waiter worker, long long at_us)
    @cython.locals(timers=list)
    cdef _add_timer(self, Waiter worker, at_us)
    cpdef _unpark(self, Waiter worker, bint woken)
    @cython.locals(timers=list, clock=cython.longlong, at_us=cython.longlong, worker=Waiter, turn=long)
    cpdef bint _advance(self) except -1
    @cython.locals(ready=list, count=Py_ssize_t, index=Py_ssize_t, worker=Waiter, last=Waiter)
    cpdef Waiter _next(self)
    @cython.locals(following=Waiter)
    cdef bint _pass_on(self, Waiter worker) except -1
    cpdef bint _resume(self, Waiter worker) except -1
    cdef _refuse(self, Waiter worker)
