cimport cython

from pykafka.producer.accumulator cimport PartitionQueue
from pykafka.producer.batch cimport ProducerBatch
from pykafka.producer.batch_results cimport BatchResults as _BatchResults
from pykafka.producer.in_flight_window cimport InFlightBatch, InFlightWindow


cdef class LeaderRequests:
    cdef object _core
    cdef object _lock
    cdef object _owner
    cdef public _BatchResults results
    cdef public dict awaiting
    cdef public bint numbered
    cdef bint _idempotent
    cdef object _schedule
    cdef double _delivery_timeout_s
    cdef object _timeout_ms
    cdef public object broker
    cdef public object channel
    cdef object _connection
    cdef bint _knows_numbers
    cdef object __weakref__

    cdef _forget(self, connection=*)
    @cython.locals(batch=ProducerBatch)
    cpdef bint _must_ask(self, list batches) except -1
    @cython.locals(window=InFlightWindow)
    cpdef bint must_wait(self, PartitionQueue queue) except -1
    @cython.locals(in_flight=InFlightBatch)
    cpdef due(self, PartitionQueue queue, double now)
    @cython.locals(batch=ProducerBatch, limit=double)
    cpdef bint may_outlast(self, list batches) except -1
    @cython.locals(batch=ProducerBatch)
    cpdef send(self, list batches, bint waits=*)
    cdef _connected(self, bint waits)
    cdef _put_back(self, list batches)
    @cython.locals(batch=ProducerBatch)
    cdef list _unfinished(self, list batches)
    @cython.locals(batch=ProducerBatch)
    cdef dict _ids(self, list batches)
    cdef _version(self, dict ids)
    @cython.locals(batch=ProducerBatch, in_flight=InFlightBatch, window=InFlightWindow)
    cpdef _number(self, list batches, bint waits=*)
    cpdef bint _close(self, ProducerBatch batch, version) except -1
    @cython.locals(batch=ProducerBatch, newest=double, now=double)
    cdef _transmit(self, list batches, dict ids, version, connection, bint waits)
    @cython.locals(batch=ProducerBatch)
    cpdef read(self, request, timeout)
