cimport cython

from pykafka.producer.accumulator cimport Accumulator


cdef class FastPath:
    cdef public bint _plain
    cdef public Accumulator _accumulator
    cdef public object _told
    cdef public object _last_told

    cdef _callback_for(self, on_delivery)
