cimport cython

from pykafka.producer.accumulator cimport RecordAccumulator

# Errors of a compiled function about arguments that it does not have name those that are meant. A jump more each call is what
# it costs: a wrapper in Python would cost a frame, and `**others` a dict.
cdef extern from *:
    """
    static vectorcallfunc pykafka_unexplained = NULL;
    static PyObject *pykafka_explain = NULL;

    /* Replace the TypeError that is set by the one that pykafka_explain returns, if it returns one, or by Ctrl-C or a greenlet's
       timeout that comes meanwhile. */
    static CYTHON_UNUSED void pykafka_replace_error(PyObject *const *args, Py_ssize_t count, PyObject *names) {
        PyObject *kind, *value, *trace, *given, *error = NULL;
        Py_ssize_t at, every = count + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
        PyErr_Fetch(&kind, &value, &trace);
        given = PyTuple_New(every);
        if (given != NULL) {
            for (at = 0; at < every; at++) {
                Py_INCREF(args[at]);
                PyTuple_SET_ITEM(given, at, args[at]);
            }
            error = PyObject_CallFunction(pykafka_explain, "OO", given, names == NULL ? Py_None : names);
            Py_DECREF(given);
        }
        if (error == Py_None || (error == NULL && PyErr_ExceptionMatches(PyExc_Exception))) {
            PyErr_Clear();
            PyErr_Restore(kind, value, trace);
        } else {
            Py_XDECREF(kind); Py_XDECREF(value); Py_XDECREF(trace);
            if (error != NULL) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        }
        Py_XDECREF(error);
    }

    static CYTHON_UNUSED PyObject *pykafka_explained(
            PyObject *function, PyObject *const *args, size_t count, PyObject *names) {
        PyObject *result = pykafka_unexplained(function, args, count, names);
        if (result == NULL && PyErr_ExceptionMatches(PyExc_TypeError))
            pykafka_replace_error(args, PyVectorcall_NARGS(count), names);
        return result;
    }

    static CYTHON_UNUSED void pykafka_explain_arguments(PyObject *function, PyObject *explain) {
        Py_ssize_t offset = Py_TYPE(function)->tp_vectorcall_offset;
        vectorcallfunc *slot = (vectorcallfunc *)((char *)function + offset);
        if (offset <= 0 || *slot == NULL || *slot == pykafka_explained) return;
        pykafka_unexplained = *slot;
        Py_INCREF(explain);
        pykafka_explain = explain;
        *slot = pykafka_explained;
    }
    """
    void explain_arguments "pykafka_explain_arguments" (object function, object explain)


cdef class FastPath:
    cdef public bint _plain
    cdef public RecordAccumulator _accumulator
    cdef public object _callback
    cdef public object _last_callback

    cdef _callback_for(self, on_delivery)
