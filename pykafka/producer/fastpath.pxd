cimport cython

from pykafka.producer.accumulator cimport RecordAccumulator


cdef class FastPath:
    cdef public bint _plain
    cdef public RecordAccumulator _accumulator
    cdef public object _callback
    cdef public object _last_callback

    cdef _callback_for(self, on_delivery)
