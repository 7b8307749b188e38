cimport cython


@cython.freelist(512)
cdef class Record:
    cdef object _topic
    cdef object _key
    cdef object _value
    cdef object _headers
    cdef object _raw_key
    cdef object _raw_value
    cdef object _ack
    cdef long long _offset
    cdef long long _timestamp
    cdef int _partition
    cdef int _leader_epoch
    cdef int _timestamp_type
    cdef bint _deserialized
    cpdef void _set_deserialized(self, object key, object value)
    cpdef void _set_ack(self, object ack)


cdef extern from "Python.h":
    int PyObject_IS_GC(object)
    int PyObject_GC_IsTracked(object)
    void PyObject_GC_Track(void *)
