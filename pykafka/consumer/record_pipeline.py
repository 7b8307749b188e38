"""`RecordPipeline`: the way of records from the buffers to the application: deserializers, and interceptors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.serialization.reading import RecordReader

if TYPE_CHECKING:
    from pykafka.consumer.engine import ConsumerEngine
    from pykafka.record import Record
    from pykafka.serialization.reading import OnBadRecord


class Interceptors:
    """The interceptors of one consumer.

    :param given: them
    :param report: logs an exception that no caller receives
    """

    def __init__(self, given: Sequence[Any], report: Callable[[str, BaseException], object]) -> None:
        self._on_consume = [one.on_consume for one in given if getattr(one, "on_consume", None) is not None]
        self._on_commit = [one.on_commit for one in given if getattr(one, "on_commit", None) is not None]
        self._report = report
        #: Whether one of them is called with records, and with committed offsets.
        self.see_records, self.see_commits = bool(self._on_consume), bool(self._on_commit)

    def consumed(self, records: list[Record[Any, Any]]) -> list[Record[Any, Any]]:
        """Return the records that the interceptors, one after another, leave to the application."""
        for call in self._on_consume:
            try:
                found = call(records)
            except Exception as error:  # noqa: BLE001 - it must not cost records
                self._report(f"interceptor {call!r}", error)
            else:
                records = records if found is None else list(found)
        return records

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note committed offsets."""
        for call in self._on_commit:
            try:
                call(dict(offsets))
            except Exception as error:  # noqa: BLE001 - the offsets are committed
                self._report(f"interceptor {call!r}", error)


class RecordPipeline:
    """The last steps of records before the application has them.

    :param engine: that has the records
    :param key_deserializer: as for `RecordReader`
    :param value_deserializer: likewise
    :param on_bad_record: likewise
    :param interceptors: checked
    """

    def __init__(
        self,
        engine: ConsumerEngine,
        key_deserializer: Any,
        value_deserializer: Any,
        on_bad_record: OnBadRecord,
        interceptors: Sequence[Any],
    ) -> None:
        handler = engine.handler
        self._engine = engine
        limiter = engine.cluster.limiter
        self.reader = RecordReader(key_deserializer, value_deserializer, on_bad_record, limiter, handler.offload)
        #: None for none.
        self.interceptors = Interceptors(interceptors, handler.report) if interceptors else None
        #: Whether records are for the application as they are in the buffers.
        self.plain = not self.reader.needed and not (self.interceptors and self.interceptors.see_records)

    def one(self, record: Record[Any, Any]) -> Record[Any, Any] | None:
        """Return a record for the application; None for one that is skipped, or was written as a dead letter.

        :raises DeserializationError: it is bad, and the policy is "raise"; the next call meets it again
        """
        if self.reader.needed:
            try:
                if not self.reader.read_one(record):
                    return None
            except BaseException:  # also such as a greenlet's timeout
                self._engine.give_back([record])
                raise
        found = self._intercepted([record])
        return found[0] if found else None

    def many(self, records: list[Record[Any, Any]]) -> list[Record[Any, Any]]:
        """Return records for the application; errors as for `one`, unless there are records to return before."""
        if self.reader.needed:
            try:
                read = self.reader.read(records)
            except BaseException:  # such as a greenlet's timeout
                self._engine.give_back(records)
                raise
            if read.done < len(records):
                self._engine.give_back(records[read.done :], in_process=records[: read.done])
            if read.error is not None and not read.good:
                raise read.error
            records = read.good
        return self._intercepted(records)

    def _intercepted(self, records: list[Record[Any, Any]]) -> list[Record[Any, Any]]:
        if self.interceptors is None or not records:
            return records
        try:
            return self.interceptors.consumed(records)
        except BaseException:  # such as a greenlet's timeout
            self._engine.give_back(records)
            raise
