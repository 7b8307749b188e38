cimport cython

from pykafka.protocol.records_write cimport RecordBatchBuilder


cdef class BrokerQueue:
    cdef public object wake
    cdef public bint has_news
    cdef public Py_ssize_t messages
    cdef public Py_ssize_t bytes
    cdef public Py_ssize_t max_messages
    cdef public Py_ssize_t max_bytes
    cdef public Py_ssize_t min_messages

    cpdef report_news(self)
    cpdef release(self, Py_ssize_t messages, Py_ssize_t nbytes)


cdef class ProducerBatch:
    cdef public str topic
    cdef public int partition_id
    cdef public BrokerQueue broker_queue
    cdef public double created
    cdef public RecordBatchBuilder builder
    cdef public Py_ssize_t count
    cdef public Py_ssize_t queued_bytes
    cdef public long long base_offset
    cdef public long long log_append_time
    cdef public object error
    cdef public object record_errors
    cdef public bint done
    cdef public bint given_up
    cdef public bint reported
    cdef public int attempts
    cdef public int failures
    cdef public double retry_at
    cdef public object last_error
    cdef public object wire
    cdef public object wire_form
    cdef public object in_flight
    cdef public bint urgent
    cdef public set raised_indexes
    cdef public object event
    cdef public object delivery_wait
    cdef public list reports
    cdef public list contexts
    cdef public ProducerBatch parent
    cdef public object parts


cdef class DeliveryWait:
    cdef object _engine
    cdef object _handler
    cdef object _lock
    cdef double _longest
    cdef object __weakref__

    @cython.locals(deadline=double)
    cpdef wait(self, ProducerBatch batch, Py_ssize_t index, timeout)
    cdef _await(self, engine, ProducerBatch batch, double deadline, timeout)


cdef class _IsDone:
    cdef ProducerBatch _batch
    cdef double _deadline
    cdef object _now
