cimport cython

from pykafka.protocol.records_read cimport BatchReader


cdef Py_ssize_t CURSOR_BYTES


@cython.locals(reader=BatchReader, messages=Py_ssize_t, nbytes=Py_ssize_t)
cdef (Py_ssize_t, Py_ssize_t) volume(object readers)


cdef class Loan:
    cdef readonly object owned
    cdef readonly long long number
    cdef readonly list readers
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t nbytes
