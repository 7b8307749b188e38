cimport cython

from pykafka.producer.batch cimport BrokerQueue, ProducerBatch
from pykafka.producer.delivery cimport Delivery
from pykafka.producer.in_flight_window cimport InFlightBatch, InFlightWindow as _InFlightWindow
from pykafka.producer.buffer_pool cimport BufferPool
from pykafka.protocol.message cimport Message
from pykafka.protocol.records_write cimport RecordBatchBuilder
from pykafka.utils.murmur2 cimport partition_for


cdef extern from "Python.h":
    void PyObject_GC_UnTrack(void* op)
    object PyContext_CopyCurrent()


cdef Py_ssize_t _OVERHEAD

cdef bint _refers_to_none(value, key)
@cython.locals(need=Py_ssize_t)
cdef Py_ssize_t _record_size(value, key, headers) except -1


cdef class PartitionQueue:
    cdef public int partition_id
    cdef public str topic
    cdef public tuple key
    cdef public Py_ssize_t taken
    cdef public ProducerBatch open
    cdef public bint wakes_sender
    cdef public Py_ssize_t expected
    cdef public object closed_batches
    cdef public _InFlightWindow window
    cdef public object owner
    cdef public object partition
    cdef public object sender
    cdef public long long next_offset


@cython.locals(window=_InFlightWindow, in_flight=InFlightBatch, batch=ProducerBatch)
cpdef ProducerBatch take_next(PartitionQueue queue, sender, take_open=*)


cdef class TopicInfo:
    cdef public object topic
    cdef public str name
    cdef public list queues
    cdef public list led
    cdef public object partitions
    cdef public PartitionQueue current
    cdef public long long seen_changes
    cdef public double used_at


cdef class RecordAccumulator:
    cdef public object lock
    cdef public BufferPool buffer_pool
    cdef public dict topics
    cdef public bint chooses
    cdef public object callbacks
    cdef public bint cooperative
    cdef public object breathe
    cdef object _now
    cdef public Py_ssize_t batch_limit
    cdef public list queues
    cdef public bint closed
    cdef Py_ssize_t _turn
    cdef Py_ssize_t _since_breath

    cpdef append(self, value, key, long long timestamp, headers, PartitionQueue queue, report_queue)

    @cython.locals(info=TopicInfo, queue=PartitionQueue)
    cpdef send(self, topic, value, key, long long timestamp, headers, Py_ssize_t partition, callback, given_value, given_key)

    @cython.locals(batch=ProducerBatch)
    cpdef ProducerBatch take_open(self, PartitionQueue queue)
    @cython.locals(batch=ProducerBatch)
    cpdef ProducerBatch shut(self, PartitionQueue queue)
    @cython.locals(batch=ProducerBatch)
    cpdef bint shut_empty(self, PartitionQueue queue) except -1
    cpdef close(self)
    @cython.locals(broker_queue=BrokerQueue)
    cpdef release(self, ProducerBatch batch)

    @cython.locals(batch=ProducerBatch, message=Message, need=Py_ssize_t, turn=Py_ssize_t, index=Py_ssize_t)
    cdef _append(self, value, key, long long timestamp, headers, PartitionQueue queue, report_queue)

    cdef bint _open(self, TopicInfo info, PartitionQueue queue) except -1

    @cython.locals(batch=ProducerBatch, delivery=Delivery, need=Py_ssize_t, index=Py_ssize_t)
    cdef _send(self, PartitionQueue queue, value, key, long long timestamp, headers, callback, given_value, given_key)

    cdef _begin(self, ProducerBatch batch)

    @cython.locals(broker_queue=BrokerQueue, buffer_pool=BufferPool, shared=BufferPool, index=Py_ssize_t)
    cdef Py_ssize_t _write(self, ProducerBatch batch, value, key, long long timestamp, headers, Py_ssize_t need) except -2


cpdef Py_ssize_t headers_size(headers) except -1
