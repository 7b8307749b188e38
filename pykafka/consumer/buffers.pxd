cimport cython

from pykafka.metrics.listener cimport ClientListener
from pykafka.protocol.records_read cimport BatchReader


cdef Py_ssize_t CURSOR_BYTES


@cython.locals(reader=BatchReader, messages=Py_ssize_t, nbytes=Py_ssize_t)
cdef (Py_ssize_t, Py_ssize_t) volume(object readers)


cdef class Borrow:
    cdef readonly object owned
    cdef readonly long long number
    cdef readonly list readers
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t nbytes


cdef Py_ssize_t BREATHE_EVERY
cdef Py_ssize_t MESSAGE_COUNTS


cdef class OwnedPartition:
    cdef public object partition
    cdef public int partition_id
    cdef public object key
    cdef public Buffers buffers
    cdef public Py_ssize_t max_messages
    cdef public Py_ssize_t max_bytes
    cdef public BatchReader reader
    cdef public object readers
    cdef public Py_ssize_t messages
    cdef public long long position
    cdef public long long last_offset_consumed
    cdef public long long high_watermark
    cdef public long long last_stable_offset
    cdef public long long log_start_offset
    cdef public long long last_timestamp
    cdef public long long taken_in
    cdef public long long taken_from
    cdef public long long fetch_offset
    cdef public long long epoch
    cdef public long long moves
    cdef public bint buffer_full
    cdef public bint paused
    cdef public bint given_up
    cdef public bint active
    cdef bint listed
    cdef public long long borrow
    cdef public object wake
    cdef public object fetcher
    cdef public object trouble_since
    cdef public object topic_id
    cdef public object former
    cdef public int leader_epoch
    cdef public object leader_epochs
    cdef object __weakref__

    @cython.locals(reader=BatchReader, before=Py_ssize_t, offset="long long")
    cdef _take(self)

    cpdef begin_taking(self, long long offset)
    cpdef reached_timestamp(self)
    cdef _forget(self, Py_ssize_t messages)


cdef class Buffers:
    cdef ClientListener _listener
    cdef object _now
    cdef readonly Py_ssize_t max_bytes
    cdef readonly Py_ssize_t max_unpacked
    cdef readonly Py_ssize_t nbytes
    cdef Py_ssize_t work
    cdef Py_ssize_t _resume_at
    cdef list _waiting
    cdef long long _borrows
    cdef public long long calls
    cdef public double taken_at
    cdef public object lock
    cdef public bint cooperative
    cdef public object breathe
    cdef public bint closed
    cdef public bint held
    cdef readonly bint records
    cdef list _active
    cdef Py_ssize_t _turn
    cdef Py_ssize_t _stale

    cpdef next(self)

    @cython.locals(owned=OwnedPartition)
    cdef _next(self)

    cpdef begin_call(self)
    cpdef long long processed(self, OwnedPartition owned) except? -2
    cpdef hold(self, OwnedPartition owned, long long offset)
    cpdef committed(self, OwnedPartition owned, long long offset)
    cpdef bint has_any(self) except -1

    @cython.locals(nbytes=Py_ssize_t)
    cpdef pause(self, OwnedPartition owned)

    cpdef resume(self, OwnedPartition owned)

    @cython.locals(nbytes=Py_ssize_t)
    cdef Py_ssize_t _counted(self, OwnedPartition owned) except -1
    cpdef bint turn_is_due(self) except -1
    cpdef list take(self, Py_ssize_t limit)

    @cython.locals(owned=OwnedPartition, reader=BatchReader)
    cdef _take(self, list found, Py_ssize_t limit)

    cdef _drop(self, OwnedPartition owned)

    @cython.locals(owned=OwnedPartition, kept=list, turn=Py_ssize_t, index=Py_ssize_t)
    cdef _tidy(self)
    cdef _activate(self, OwnedPartition owned)
    cdef forget(self, Py_ssize_t nbytes)
    cpdef bint wait_for_room(self, object wake) except -1
    cpdef next_fetch(self, OwnedPartition owned, Py_ssize_t coming)
    cpdef bint advance(self, OwnedPartition owned, long long epoch, long long offset, object starts=*) except -1
    cpdef rewind(self, OwnedPartition owned, long long epoch, long long offset)

    @cython.locals(messages=Py_ssize_t, nbytes=Py_ssize_t)
    cpdef bint put(self, OwnedPartition owned, long long epoch, list readers) except -1

    @cython.locals(owned=OwnedPartition, reader=BatchReader, borrowed=list)
    cpdef borrow(self, Py_ssize_t rows, Py_ssize_t cursors)

    @cython.locals(owned=OwnedPartition, reader=BatchReader, read=Py_ssize_t, left=list, messages=Py_ssize_t,
                   nbytes=Py_ssize_t)
    cpdef bint return_borrowed(self, Borrow borrow, long long last_offset) except -1

    @cython.locals(owned=OwnedPartition)
    cpdef abandon(self, Borrow borrow)

    cpdef bint correct(self, OwnedPartition owned, long long moves, long long before, long long after) except -1
    cpdef bint move(self, OwnedPartition owned, long long position, long long last_offset_consumed, long long moves=*,
                     object leader_epochs=*) except -1

    @cython.locals(nbytes=Py_ssize_t)
    cdef _move(self, OwnedPartition owned, long long position, long long last_offset_consumed)
