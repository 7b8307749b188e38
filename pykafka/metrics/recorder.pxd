cimport cython

from pykafka.metrics.listener cimport ClientListener
from pykafka.metrics.sensors cimport Sensor


cdef class ApiSensors:
    cdef readonly Sensor took
    cdef readonly Sensor sent
    cdef readonly Sensor received


cdef class TopicSensors:
    cdef readonly Sensor records
    cdef readonly Sensor bytes
    cdef readonly Sensor wire_bytes
    cdef readonly Sensor errors
    cdef readonly Sensor retries

    @cython.locals(other=TopicSensors)
    cpdef take_over(self, other)


cdef class PartRecorder(ClientListener):
    cdef readonly tuple about
    cdef public str name
    cdef readonly dict events
    cdef readonly dict apis
    cdef readonly dict topics
    cdef readonly TopicSensors left
    cdef Py_ssize_t _tidy_at
    cdef readonly Sensor queued
    cdef readonly Sensor delivered
    cdef readonly Sensor requests
    cdef readonly Sensor batch_size
    cdef readonly dict errors
    cdef readonly dict retries
    cdef object _now
    cdef object _keep
    cdef object _keep_request

    @cython.locals(sensor=Sensor)
    cpdef on_event(self, kind, subject, double seconds=*, detail=*)

    @cython.locals(sensors=ApiSensors)
    cpdef on_request(self, api, Py_ssize_t sent, double now)

    @cython.locals(sensors=ApiSensors)
    cpdef on_answer(self, api, Py_ssize_t sent, Py_ssize_t received, double seconds, double now)

    @cython.locals(topic=TopicSensors, count=Py_ssize_t, size=Py_ssize_t, records=Py_ssize_t, created=double, wire=list)
    cpdef on_send(self, batches, double now)

    @cython.locals(created=double)
    cpdef on_batch(self, batch, error, double now)

    cpdef on_retry(self, batch, error)
    cdef TopicSensors _count(self, dict counts, kind, batch, error, double now)

    @cython.locals(sensors=TopicSensors)
    cpdef on_records(self, topic, int partition, Py_ssize_t records, Py_ssize_t nbytes, double now)

    cdef _tidy(self, double now)


cdef class Recorder(PartRecorder):
    cdef readonly object flight
    cdef readonly dict connections
    cdef readonly object parts
    cdef dict _named
    cdef dict _claims
    cdef object _recorders
