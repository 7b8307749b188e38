cimport cython

from pykafka.testing.virtual.primitives cimport Line, Numbered
from pykafka.testing.virtual.turns cimport Turns, Waiter


cdef class Connections:
    cdef readonly Turns scheduler
    cdef readonly dict links
    cdef long _number
    cdef object _history

    cpdef long next_number(self)
    cpdef note(self, bytes what, long number, bytes data=*)


cdef class Link:
    cdef Connections _connections
    cdef readonly long number
    cdef readonly long long latency_us
    cdef object _seed
    cdef object _random
    cdef public double jitter_us
    cdef public double split
    cdef public long long cut_at
    cdef public long long lost_from
    cdef public bint loses_of_client
    cdef list _ends

    cpdef double draw(self)
    @cython.locals(client=VirtualStream, server=VirtualStream)
    cpdef join(self, source, target)
    @cython.locals(end=VirtualStream)
    cpdef cut(self)
    @cython.locals(now=cython.longlong)
    cpdef heal(self)


cdef class VirtualStream(Numbered):
    cdef Connections _connections
    cdef long _id
    cdef Link _link
    cdef object _own
    cdef object _other
    cdef public bint is_client
    cdef public bint is_closed
    cdef public VirtualStream peer
    cdef object _pieces
    cdef Py_ssize_t _unread
    cdef long long _last_at
    cdef long long _end_at
    cdef long long _reset_at
    cdef Waiter _reader
    cdef Line _room

    @cython.locals(scheduler=Turns, until=cython.longlong, now=cython.longlong, cut_at=cython.longlong, next_at=cython.longlong)
    cpdef recv_into(self, buffer, double timeout)
    @cython.locals(scheduler=Turns)
    cdef _await(self, long long until)
    @cython.locals(filled=Py_ssize_t, size=Py_ssize_t, count=Py_ssize_t, at=cython.longlong)
    cdef Py_ssize_t _take(self, buffer, long long now) except -1
    @cython.locals(room=Py_ssize_t, size=Py_ssize_t)
    cpdef send(self, buffers, double timeout)
    cdef _check_writable(self)
    @cython.locals(link=Link, peer=VirtualStream, now=cython.longlong, gap_us=cython.longlong, size=Py_ssize_t)
    cdef _send(self, data)
    @cython.locals(link=Link, at=cython.longlong)
    cdef long long _arrival(self, long long gap_us=*)
    @cython.locals(at=cython.longlong)
    cdef _arrive(self, data, long long gap_us)
    cpdef look_again(self)
    cdef _check_open(self)
    @cython.locals(link=Link, peer=VirtualStream, now=cython.longlong, at=cython.longlong)
    cpdef close(self)
