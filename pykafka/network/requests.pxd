cimport cython

from pykafka.metrics.listener cimport ClientListener
from pykafka.network.in_flight cimport InFlightRequests, RequestState
from pykafka.network.turns cimport WriteTurn


@cython.locals(requests=InFlightRequests, at=double, deadline=double)
cdef _send(owner, RequestState request, double timeout, bint has_response, double latest, bint patient, double until)


@cython.locals(requests=InFlightRequests, writing=WriteTurn, at=double, writes=bint)
cdef _write(owner, frame, RequestState request, double deadline)


@cython.locals(requests=InFlightRequests, now=double, left=double)
cdef bint _read_one(handler, shared, double tick) except -1


@cython.locals(requests=InFlightRequests, request=RequestState, listener=ClientListener, at=double)
cdef _deliver(handler, shared, frame)
