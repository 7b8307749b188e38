cdef class ClientListener:
    cdef object __weakref__

    cpdef on_request(self, api, Py_ssize_t sent, double now)
    cpdef on_answer(self, api, Py_ssize_t sent, Py_ssize_t received, double seconds, double now)
    cpdef on_send(self, batches, double now)
    cpdef on_batch(self, batch, error, double now)
    cpdef on_retry(self, batch, error)
    cpdef on_records(self, topic, int partition, Py_ssize_t records, Py_ssize_t nbytes, double now)
    cpdef on_event(self, kind, subject, double seconds=*, detail=*)
