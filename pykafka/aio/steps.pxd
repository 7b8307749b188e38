cimport cython

from pykafka.consumer.buffers cimport Buffers
from pykafka.handlers.looplocks cimport Overdue
from pykafka.producer.fastpath cimport FastPath, explain_arguments

cdef extern from "pythread.h":
    unsigned long thread_number "PyThread_get_thread_ident"()

# Tasks and `await` drive a coroutine by the slot am_send, which returns a result without an exception. Cython has no name for it.
cdef extern from *:
    """
    typedef PyObject *(*pykafka_begin)(PyObject *);
    static pykafka_begin pykafka_begin_step = NULL;

    static PySendResult pykafka_send(PyObject *step, PyObject *value, PyObject **result) {
        PyObject *found = pykafka_begin_step(step);
        PySendResult state;
        if (found != NULL && found == Py_None) {
            Py_DECREF(found);
            found = PyObject_GetAttrString(step, "_rest");
            if (found != NULL) {
                state = PyIter_Send(found, value, result);
                Py_DECREF(found);
                return state;
            }
        }
        *result = found;
        return found == NULL ? PYGEN_ERROR : PYGEN_RETURN;
    }

    static void pykafka_give_send(PyObject *cls, pykafka_begin begin) {
        PyTypeObject *type = (PyTypeObject *)cls;
        pykafka_begin_step = begin;
        if (type->tp_as_async == NULL) return;
        type->tp_as_async->am_send = pykafka_send;
    #ifdef Py_TPFLAGS_HAVE_AM_SEND
        type->tp_flags |= Py_TPFLAGS_HAVE_AM_SEND;
    #endif
        PyType_Modified(type);
    }
    #define give_send(cls, begin) pykafka_give_send((PyObject *)(cls), (pykafka_begin)(void *)(begin))
    """
    void give_send(type cls, object (*begin)(Step))


cdef class Step:
    cdef readonly object _rest
    cdef int _state

    cpdef _first(self)
    cpdef _slowly(self)
    cpdef _called(self)
    cpdef send(self, value)


cdef object begin(Step step)


cdef class Sending:
    cdef public FastPath _fast
    cdef public unsigned long _thread
    cdef public Overdue _turns
    cdef object __weakref__


cdef class Taking:
    cdef public Buffers _buffers
    cdef public bint _at_hand
    cdef public Overdue _turns
    cdef object __weakref__


@cython.final
cdef class Produce(Step):
    cdef Sending _facade
    cdef object _topic
    cdef object _value
    cdef object _key
    cdef object _headers
    cdef object _timestamp
    cdef object _partition
    cdef object _on_delivery


@cython.final
cdef class Next(Step):
    cdef Taking _facade


@cython.locals(step=Produce)
cdef object new_produce(Sending facade, topic, value, key, headers, timestamp, partition, on_delivery)


@cython.locals(step=Next)
cdef object new_next(Taking facade)
