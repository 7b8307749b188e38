cimport cython


@cython.locals(octets="const unsigned char*", size=Py_ssize_t, whole=Py_ssize_t, at=Py_ssize_t, h="unsigned int",
               k="unsigned int", mask="unsigned int", seed="unsigned int", m="unsigned int")
cpdef unsigned int murmur2(bytes data) except? 0


cpdef int partition_for(bytes key, int partitions) except -1
