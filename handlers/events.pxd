cdef class GateEvent:
    cdef bint _flag
    cdef object _gates
    cdef object __weakref__

    cpdef bint is_set(self)
    cpdef set(self)
    cpdef clear(self)
