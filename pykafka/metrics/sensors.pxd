cdef class Sensor:
    cdef readonly long long count
    cdef readonly double total
    cdef readonly double last
    cdef readonly tuple bounds
    cdef readonly list buckets
    cdef double _since
    cdef long long _count
    cdef double _total
    cdef double _largest
    cdef double _since_before
    cdef long long _count_before
    cdef double _total_before
    cdef double _largest_before

    cpdef record(self, double value, double now)
    cpdef take_over(self, Sensor other)
