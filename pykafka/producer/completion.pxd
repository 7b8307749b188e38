from pykafka.metrics.listener cimport ClientListener
from pykafka.producer.accumulator cimport RecordAccumulator
from pykafka.producer.batch cimport ProducerBatch


cdef class Completion:
    cdef ClientListener _listener
    cdef object _now
    cdef object _name
    cdef object _any_topic
    cdef object _options
    cdef object _lock
    cdef RecordAccumulator _accumulator
    cdef object _progress
    cdef object _limiter
    cdef public object failures
    cdef public bint observed
    cdef public object callbacks
    cdef object __weakref__

    cpdef complete(self, ProducerBatch batch, error=*, bint asked_for=*)
