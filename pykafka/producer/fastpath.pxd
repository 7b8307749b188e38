cimport cython

from pykafka.producer.accumulator cimport RecordAccumulator


cdef class FastPath:
    cdef public bint _plain
    cdef public RecordAccumulator _accumulator
    cdef public object _told
    cdef public object _last_told

    cdef _callback_for(self, on_delivery)
