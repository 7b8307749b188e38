cimport cython

from pykafka.producer.batch cimport ProducerBatch
from pykafka.producer.in_flight_window cimport InFlightBatch


cdef class Request:
    cdef public list batches
    cdef public dict ids
    cdef public object transactional_id
    cdef public object pending
    cdef object __weakref__

    @cython.locals(batch=ProducerBatch)
    cpdef message(self, acks, timeout_ms)
    @cython.locals(batch=ProducerBatch)
    cpdef bint is_written(self, response) except -1


@cython.locals(size=Py_ssize_t, whole=Py_ssize_t, records=list)
cdef list _framed(int version, client_id, tuple place, list records, acks, timeout_ms, long long correlation_id)


@cython.locals(end=Py_ssize_t, name=Py_ssize_t, size=Py_ssize_t, stop=Py_ssize_t)
cdef tuple _written(int version, frame)


@cython.locals(in_flight=InFlightBatch)
cpdef close_batch(ProducerBatch batch, int version, codec, handler, level=*, bint transactional=*)
