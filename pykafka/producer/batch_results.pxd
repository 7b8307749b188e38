cimport cython

from pykafka.producer.accumulator cimport PartitionQueue
from pykafka.producer.batch cimport ProducerBatch
from pykafka.producer.in_flight_window cimport InFlightBatch


cdef _note_end(PartitionQueue queue, ProducerBatch batch)


cdef class BatchResults:
    cdef object _listener
    cdef object _handler
    cdef object _lock
    cdef object _retry_policy
    cdef object _owner
    cdef object _metadata_error
    cdef object __weakref__

    @cython.locals(in_flight=InFlightBatch, queue=PartitionQueue)
    cpdef acknowledged(self, ProducerBatch batch)
    cpdef check_age(self, ProducerBatch batch)
