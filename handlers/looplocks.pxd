cdef double WAIT_MAX_S


cdef class Loop:
    cdef readonly object loop
    cdef readonly object thread
    cdef bint _coarse
    cdef object __weakref__


cdef class Overdue:
    cdef public bint overdue
    cdef object __weakref__


cdef class Waiters:
    cdef readonly Loop loop
    cdef readonly object futures

    cpdef object enter(self)
    cpdef bint wait(self, object future, double timeout) except -1
    cpdef bint wake(self) except -1
    cpdef wake_all(self)
    cdef bint _give(self, object future) except -1


cdef class LoopEvent:
    cdef Waiters _waiters
    cdef bint _flag
    cdef object __weakref__


cdef class LoopLock:
    cdef Waiters _waiters
    cdef bint _locked
    cdef object __weakref__

    cpdef bint acquire(self, bint blocking=*, double timeout=*) except -1
    cpdef release(self)


cdef class LoopRLock:
    cdef LoopLock _lock
    cdef object _owner
    cdef Py_ssize_t _count
    cdef object __weakref__

    cpdef bint acquire(self, bint blocking=*, double timeout=*) except -1
    cpdef release(self)


cdef class LoopSemaphore:
    cdef Waiters _waiters
    cdef Py_ssize_t _value
    cdef object __weakref__

    cpdef release(self)


cdef class LoopQueue:
    cdef Py_ssize_t _maxsize
    cdef object _items
    cdef Py_ssize_t _unfinished
    cdef Waiters _filled
    cdef Waiters _emptied
    cdef LoopEvent _finished
    cdef object __weakref__

    cdef bint _await(self, Waiters waiters, object has_to, bint block, object timeout) except -1
