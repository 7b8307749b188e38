cimport cython


@cython.final
cdef class Leaf:
    cdef readonly list values


@cython.final
cdef class Fields:
    cdef readonly dict columns
    cdef readonly list present


@cython.final
cdef class Items:
    cdef readonly tuple columns
    cdef readonly list ends
    cdef readonly list present

    @cython.locals(start=Py_ssize_t)
    cpdef close(self, Py_ssize_t count)

    @cython.locals(last=Py_ssize_t)
    cdef Py_ssize_t end(self) except -1
