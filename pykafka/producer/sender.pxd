cimport cython

from pykafka.producer.accumulator cimport PartitionQueue, take_next
from pykafka.producer.batch cimport BrokerQueue, ProducerBatch
from pykafka.producer.in_flight_window cimport InFlightWindow
from pykafka.producer.leader_requests cimport LeaderRequests as _LeaderRequests


cdef class WakeupPolicy:
    cdef public double linger_s
    cdef bint _always
    cdef public Py_ssize_t helped
    cdef double _since
    cdef public dict polling

    cpdef set_wakeup(self, PartitionQueue queue)
    cpdef bint polls(self, double now) except -1


cdef class Sender:
    cdef object _core
    cdef public object broker
    cdef public _LeaderRequests _requests
    cdef object _handler
    cdef object _lock
    cdef object _routing
    cdef public object wake
    cdef public BrokerQueue broker_queue
    cdef public dict queues
    cdef public dict active
    cdef public bint running
    cdef public bint at_work
    cdef bint _blocked
    cdef Py_ssize_t _min_queued
    cdef double _linger_s
    cdef public WakeupPolicy wakeups
    cdef object _schedule
    cdef double _check_age_at
    cdef public object _stepping
    cdef bint _waits
    cdef object _starting
    cdef object _idle_since
    cdef list _kept
    cdef public object _worker
    cdef object __weakref__

    @cython.locals(batch=ProducerBatch, now=double)
    cpdef bint open_batch(self, PartitionQueue queue) except -1
    cpdef deliver(self, done, bint patient=*)
    cpdef send_now(self, bint patient=*)
    cpdef _step(self)
    cdef _send_ready(self, bint waits)
    @cython.locals(
        queue=PartitionQueue, window=InFlightWindow, batch=ProducerBatch, throttled_until=double, is_waiting=bint, hurried=bint
    )
    cpdef _take_ready(self, double now)
    @cython.locals(window=InFlightWindow, batch=ProducerBatch, queued=BrokerQueue)
    cdef _due(self, PartitionQueue queue, double now, bint hurried)
    cpdef _take(self, PartitionQueue queue)
    cpdef send(self, list batches)
    cpdef PartitionQueue queue_of(self, batch)
    cpdef sent(self, _LeaderRequests requests, request)
    cpdef on_response(self, _LeaderRequests requests, request, _=*)
    @cython.locals(batch=ProducerBatch, queue=PartitionQueue, owner=object)
    cdef _after_response(self, request)
    cpdef delivered(self, ProducerBatch batch)
