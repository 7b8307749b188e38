cimport cython

from pykafka.metrics.listener cimport ClientListener
from pykafka.metrics.sensors cimport Sensor


cdef class ApiSensors:
    cdef readonly Sensor took
    cdef readonly Sensor sent
    cdef readonly Sensor received


cdef class PartRecorder(ClientListener):
    cdef readonly tuple about
    cdef readonly dict events
    cdef object _now
    cdef object _keep

    @cython.locals(sensor=Sensor)
    cpdef on_event(self, kind, subject, double seconds=*, detail=*)


cdef class ConnectionRecorder(PartRecorder):
    cdef readonly dict apis
    cdef object _keep_request

    @cython.locals(sensors=ApiSensors)
    cpdef on_answer(self, api, Py_ssize_t sent, Py_ssize_t received, double seconds, double now)


cdef class TopicSensors:
    cdef readonly Sensor records
    cdef readonly Sensor bytes
    cdef readonly Sensor wire_bytes
    cdef readonly Sensor errors
    cdef readonly Sensor retries


cdef class ProducerRecorder(PartRecorder):
    cdef readonly dict topics
    cdef readonly Sensor queued
    cdef readonly Sensor delivered
    cdef readonly Sensor requests
    cdef readonly Sensor batch_size
    cdef readonly dict errors
    cdef readonly dict retries

    @cython.locals(topic=TopicSensors, count=Py_ssize_t, size=Py_ssize_t, records=Py_ssize_t, created=double)
    cpdef on_send(self, batches, double now)

    @cython.locals(created=double)
    cpdef on_batch(self, batch, error, double now)
    cpdef on_retry(self, batch, error)
    cdef TopicSensors _topic(self, name)
    cdef _count(self, dict counts, error, records)


cdef class ConsumerRecorder(PartRecorder):
    cdef readonly dict topics

    @cython.locals(sensors=TopicSensors)
    cpdef on_records(self, topic, int partition, Py_ssize_t records, Py_ssize_t nbytes, double now)


cdef class Recorder(PartRecorder):
    cdef readonly object flight
    cdef readonly dict connections
