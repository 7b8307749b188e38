cimport cython

from pykafka.protocol.message cimport Message
from pykafka.protocol.records_read cimport BatchReader


cdef class OwnedPartition:
    cdef public object partition
    cdef public int partition_id
    cdef public Buffers buffers
    cdef public Py_ssize_t max_messages
    cdef public Py_ssize_t max_bytes
    cdef public BatchReader reader
    cdef public object readers
    cdef public Py_ssize_t messages
    cdef public long long position
    cdef public long long last_offset_consumed
    cdef public long long fetch_offset
    cdef public long long epoch
    cdef public bint paused
    cdef public bint active
    cdef public object wake
    cdef public object fetcher
    cdef public object trouble_since
    cdef object __weakref__

    @cython.locals(reader=BatchReader, message=Message)
    cdef Message _take(self)


cdef class Buffers:
    cdef public str topic_name
    cdef public object lock
    cdef public bint cooperative
    cdef public object breathe
    cdef public bint closed
    cdef list _active
    cdef Py_ssize_t _turn
    cdef Py_ssize_t _since_breath

    cpdef next(self)

    @cython.locals(owned=OwnedPartition, message=Message)
    cdef Message _next(self)

    cdef _drop(self, OwnedPartition owned)
    cpdef put(self, OwnedPartition owned, list readers)
    cpdef move(self, OwnedPartition owned, long long position, long long last_offset_consumed)
