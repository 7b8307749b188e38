"""`Deliveries`: the records of topics, and the wait for records that should be there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pykafka.client import KafkaClient
from pykafka.exceptions import TopicNotFoundError
from pykafka.handlers.patching import on_event_loop
from pykafka.record import Record
from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.log import PartitionLog
from pykafka.testing.plugin.clusters import Cluster, handler_of
from pykafka.testing.topics import Partition

#: How often a topic is looked at (s): the fake one's memory, a real one by a consumer.
_LOOK_S = {True: 0.005, False: 0.1}
#: How long a read of a real cluster may take (s).
_READ_S = 30.0
#: How many records of each kind a failure shows.
_SHOWN = 5


class Deliveries:
    """Views of the topics of a cluster.

    :param cluster: that has them
    :param handler: "threads" or "gevent": how the caller waits
    """

    def __init__(self, cluster: Cluster, handler: str) -> None:
        self._cluster = cluster
        self._kind = handler
        self._handler = handler_of(handler)

    def consume_all(self, topic: str, *, committed: bool = True) -> list[Record]:
        """Return all records that a topic has by now, without a group: one partition after another, in the order of offsets.

        :param committed: leave out those of transactions that are open or were aborted
        :raises TopicNotFoundError: there is no such topic
        """
        if isinstance(self._cluster, FakeCluster):
            with self._cluster._locked() as state:
                if topic not in state.topics:
                    raise TopicNotFoundError(
                        f"there is no topic {topic!r}; there are: {', '.join(state.topics) or 'none'}"
                    )
                return [record for one in state.topics[topic].partitions for record in _readable(one, committed)]
        level = "read_committed" if committed else "read_uncommitted"
        greenlets = self._kind == "gevent"
        with (
            KafkaClient(self._cluster.hosts, use_greenlets=greenlets, allow_auto_create_topics=False) as client,
            client.consumer(topic, isolation_level=level) as consumer,
        ):
            records: list[Record] = []
            until = self._handler.now() + _READ_S
            while any(consumer.lag(timeout=_READ_S).values()):
                if self._handler.now() >= until:
                    raise TimeoutError(f"topic {topic!r} was not read to its end within {_READ_S:g} s")
                records += consumer.poll(timeout=1.0)
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def assert_delivered(
        self,
        topic: str,
        values: Iterable[Any] | None = None,
        *,
        count: int | None = None,
        timeout: float = 10.0,
        in_order: bool = False,
        others: bool = False,
        decode: Callable[[Any], Any] | None = None,
    ) -> list[Record]:
        """Wait until a topic has some records, and return all that it has.

        It fails at once if there is a record that is not expected, and says which ones are missing or not expected.

        :param values: the expected ones, in any order: bytes, text, None; or pairs of key and value
        :param count: instead of values: how many records
        :param timeout: how long (s)
        :param in_order: the values come in this order, in one partition
        :param others: the topic may have other records, too
        :param decode: makes of the bytes of a value what is compared, such as `json.loads`
        :raises AssertionError: the topic has others by then
        """
        __tracebackhide__ = True
        listed: Any = values  # callers need not be typed
        if (
            (listed is None) == (count is None)
            or isinstance(listed, str | bytes)
            or not isinstance(listed, Iterable | None)
        ):
            raise TypeError("assert_delivered takes a list of values, or count=")
        if count is not None and (type(count) is not int or count < 0):
            raise ValueError(f"count is {count!r}: a number of records, 0 or more")
        expected = None if values is None else [_wanted(value, decode is None) for value in values]
        until = self._handler.now() + timeout
        while True:
            try:
                records = self.consume_all(topic)
                problem = _Problem(records, expected, count or 0, in_order, others, decode)
                absent = ""
            except TopicNotFoundError as error:
                records, problem, absent = [], _Problem([], expected, count or 0), str(error)
            if not problem and not absent:
                return records
            if problem.stays or self._handler.now() >= until:
                text = problem.text(f"{timeout:g} s")
                raise AssertionError(f"topic {topic!r} {text}" + (f"\n  {absent}" if absent else ""))
            if on_event_loop():
                raise RuntimeError(
                    "assert_delivered would block the event loop, on which the records may have to come: write "
                    "`await asyncio.to_thread(assert_delivered, ...)`"
                )
            self._handler.sleep(_LOOK_S[isinstance(self._cluster, FakeCluster)])


class _Problem:
    """How records differ from the expected ones; false if they do not.

    :param records: of the topic
    :param expected: pairs of key and value, the key in a tuple that is empty for any; None: only their number counts
    :param count: that number
    """

    def __init__(
        self,
        records: Sequence[Record],
        expected: list[tuple[tuple[Any, ...], Any]] | None,
        count: int = 0,
        in_order: bool = False,
        others: bool = False,
        decode: Callable[[Any], Any] | None = None,
    ) -> None:
        self._total = count if expected is None else len(expected)
        self._missing: list[Any] = []
        self._extra: list[tuple[Record, Any]] = []
        self._disorder = ""
        if expected is None:
            self._short, self._over = max(count - len(records), 0), 0 if others else max(len(records) - count, 0)
        else:
            self._compare(records, expected, in_order, decode)
            self._short, self._over = len(self._missing), 0 if others else len(self._extra)
        #: Whether no further record could mend it.
        self.stays = bool(self._over or self._disorder)

    def __bool__(self) -> bool:
        return bool(self._short or self.stays)

    def _compare(
        self,
        records: Sequence[Record],
        expected: list[tuple[tuple[Any, ...], Any]],
        in_order: bool,
        decode: Callable[[Any], Any] | None,
    ) -> None:
        if in_order and len({record.partition for record in records}) > 1:
            raise ValueError("in_order=True is for records of one partition: these are in several")
        self._missing = list(expected)
        came: list[tuple[Record, Any]] = []
        for record in records:
            value = _decoded(record, decode)
            for wanted in ((), value), ((record.key,), value):
                if wanted in self._missing:
                    self._missing.remove(wanted)
                    came.append((record, wanted))
                    break
            else:
                self._extra.append((record, value))
        if in_order:
            for at, ((record, got), wanted) in enumerate(zip(came, expected, strict=False)):
                if got != wanted:
                    place = f"record {at} (partition {record.partition}, offset {record.offset})"
                    self._disorder = f"first difference: {place} is {_shown(got)}, expected {_shown(wanted)}"
                    break

    def text(self, after: str) -> str:
        """Say it in some lines.

        :param after: how long the wait was
        """
        late = "" if self.stays else f" after {after}"
        wrong = [f"lacks {self._short} of {self._total} records{late}"] if self._short else []
        wrong += [f"has {self._over} that {'is' if self._over == 1 else 'are'} not expected"] if self._over else []
        wrong += ["has its records in another order"] if self._disorder else []
        lines = [" and ".join(wrong)]
        lines += _listed("missing", [_shown(one) for one in self._missing])
        extra = [f"{value!r} (partition {one.partition}, offset {one.offset})" for one, value in self._extra]
        lines += _listed("not expected", extra)
        lines += [f"  {self._disorder}"] if self._disorder else []
        if len(self._missing) == 1 and self._extra:
            lines += _first_difference(self._missing[0][1], self._extra[0][1])
        return "\n".join(lines)


def _decoded(record: Record, decode: Callable[[Any], Any] | None) -> Any:
    if decode is None or record.value is None:
        return record.value
    try:
        return decode(record.value)
    except Exception as error:
        error.add_note(f"decode failed for {record.value!r} (partition {record.partition}, offset {record.offset})")
        raise


def _wanted(value: Any, encode: bool) -> tuple[tuple[Any, ...], Any]:
    key: tuple[Any, ...] = ()
    if isinstance(value, tuple):
        if len(value) != 2:
            raise ValueError(f"{value!r} is expected: a tuple is a pair of key and value")
        first, value = value
        key = (first.encode() if isinstance(first, str) else first,)
    # Whatever else is no value of a record, so the wait for it would end in vain.
    if encode and not isinstance(value, str | bytes | bytearray | memoryview | None):
        raise TypeError(f"{value!r} is expected, but values are bytes, text or None: give decode= to compare others")
    return key, value.encode() if encode and isinstance(value, str) else value


def _shown(wanted: tuple[tuple[Any, ...], Any]) -> str:
    key, value = wanted
    return f"{key[0]!r}: {value!r}" if key else repr(value)


def _listed(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"  {title}:"
        yield from (f"    {line}" for line in lines[:_SHOWN])
    if len(lines) > _SHOWN:
        yield f"    ... and {len(lines) - _SHOWN} more"


def _first_difference(wanted: Any, value: Any) -> Iterator[str]:
    if isinstance(wanted, bytes) and isinstance(value, bytes) and wanted != value:
        at = next((at for at, (a, b) in enumerate(zip(wanted, value, strict=False)) if a != b), None)
        at = min(len(wanted), len(value)) if at is None else at
        begin = max(at - 10, 0)
        yield f"  first difference: byte {at}: {wanted[begin : at + 10]!r} is expected, {value[begin : at + 10]!r} is there"


def _readable(partition: Partition, committed: bool) -> Iterator[Record]:
    """Yield what consumers can read of a partition; the caller holds the lock of the state."""
    log: PartitionLog = partition.log
    below = partition.last_stable if committed else partition.high_watermark
    for batch in log.batches:
        if batch.is_control or (committed and log.is_aborted(batch)):
            continue
        for message in batch.messages():
            if log.start <= message.offset < below:
                yield Record(
                    *(partition.topic, partition.index, message.offset, message.partition_key, message.value),
                    headers=[*(message.headers or ())],
                    timestamp=message.timestamp,
                )
