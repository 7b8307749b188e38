cimport cython

from pykafka.testing.virtual.turns cimport Turns, Waiter


cdef class Numbered:
    cdef object __weakref__
    cdef Py_hash_t _number
    cdef Turns _scheduler


cdef class Line:
    cdef Turns _scheduler
    cdef list _waiting

    @cython.locals(scheduler=Turns, worker=Waiter, woken=bint)
    cpdef bint wait(self, until_us) except -1
    cdef _leave(self, Waiter worker)
    cpdef wake(self)
    @cython.locals(waiting=list)
    cpdef wake_all(self)


cdef class VirtualEvent(Numbered):
    cdef bint _flag
    cdef Line _line


cdef class VirtualSemaphore(Numbered):
    cdef long _value
    cdef Line _line

    cdef bint _take(self, bint blocking, timeout) except -1
    cdef bint _await(self, until_us) except -1


cdef class VirtualLock(VirtualSemaphore):
    pass


cdef class VirtualRLock(Numbered):
    cdef VirtualLock _lock
    cdef Waiter _owner
    cdef long _count


cdef class VirtualQueue(Numbered):
    cdef long _maxsize
    cdef object _items
    cdef VirtualSemaphore _taken
    cdef VirtualSemaphore _room
    cdef long _unfinished
    cdef Line _finished
