"""`CompletedFetches`: fetched batches that are not delivered yet. Compressed ones are unpacked only if there is room."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pykafka.consumer.leader_epochs import Start
from pykafka.exceptions import KafkaException

if TYPE_CHECKING:
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.fetch_plan import Member
    from pykafka.consumer.fetch_response import Fetched
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType, LockType
    from pykafka.protocol.records import BatchReader, RawBatch

#: A batch larger than this is checked and decompressed off the hub (bytes).
OFFLOAD_FROM = 16 * 1024


class _Coming(NamedTuple):
    """The fetched part of a partition that is not delivered yet: its first offset, and its size."""

    epoch: int
    offset: int
    messages: int
    nbytes: int


class Kept(NamedTuple):
    """Batches of a partition that are delivered one after another, as there is room.

    :param wanted: the first offset that was not delivered
    :param aborted: the base offsets of batches that were never committed
    """

    member: Member
    epoch: int
    wanted: int
    batches: deque[RawBatch]
    aborted: set[int]


class CompletedFetches:
    """The messages that one fetcher has fetched and not delivered; all of it changes under the fetcher's lock.

    :param handler: decompresses large batches off the hub
    :param lock: the fetcher's
    :param wake: set when a consumer without room has some again
    """

    def __init__(self, handler: Handler, lock: LockType, wake: EventType) -> None:
        self._handler = handler
        self._lock = lock
        self._wake = wake
        #: What consumers have still to take.
        self.coming: dict[OwnedPartition, _Coming] = {}
        #: Batches that wait for room.
        self.kept: dict[OwnedPartition, Kept] = {}
        #: The partitions of which something has come since the last plan.
        self.fed: set[OwnedPartition] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self.kept)} kept, {len(self.coming)} coming>"

    # -- the caller holds the lock ---------------------------------------------------------------------------------

    def drop(self, owned: OwnedPartition) -> None:
        """Forget a partition: its next fetcher fetches undelivered records again.

        Answers that are under way count no more, also if the partition comes back: another fetcher may have read on meanwhile.
        """
        self.kept.pop(owned, None)
        self.fed.discard(owned)
        coming = self.coming.pop(owned, None)
        epoch, offset = (owned.epoch, owned.fetch_offset) if coming is None else (coming.epoch, coming.offset)
        owned.buffers.rewind(owned, epoch, offset)

    def next_fetch(self, owned: OwnedPartition) -> tuple[int, int] | None:
        """Return where to fetch a partition: (epoch, offset); None while it has enough."""
        if owned in self.kept:
            return None
        coming = self.coming.get(owned)
        found: tuple[int, int] | None = owned.buffers.next_fetch(owned, 0 if coming is None else coming.messages)
        return found

    # -- the worker calls, without the lock ------------------------------------------------------------------------

    def advance(self, fetched: Fetched, owner: object) -> None:
        """Move partitions on, behind what was fetched of them.

        :param owner: the fetcher; partitions that have left it are not touched
        """
        asked, batches, _ = fetched
        starts: list[Start] = []
        reached, count, nbytes, leader_epoch = -1, 0, 0, None
        for batch in batches:
            count += max(batch.count, 1)
            nbytes += batch.size
            if batch.leader_epoch != leader_epoch:
                leader_epoch = batch.leader_epoch
                starts.append(Start(max(batch.base_offset, reached), leader_epoch))
            reached = batch.next_offset
        with self._lock:
            for member, epoch in asked.members:
                owned = member.owned
                if owned.fetcher is owner and owned.buffers.advance(owned, epoch, reached, starts):
                    self.coming[owned] = _Coming(epoch, asked.offset, count, nbytes)
                    self.fed.add(owned)

    def kept_with_room(self) -> Iterator[Kept]:
        """Iterate over batches kept for consumers that have room now; deliver each before the next."""
        for kept in list(self.kept.values()):
            if not kept.member.owned.buffers.wait_for_room(self._wake):
                with self._lock:
                    self.kept.pop(kept.member.owned, None)
                yield kept

    def deliver(self, kept: Kept) -> KafkaException | None:
        """Deliver the batches of a partition while there is room, and keep the rest; return the error of a batch.

        What came before the error is delivered, too.
        """
        owned = kept.member.owned
        error: KafkaException | None = None
        readers: list[BatchReader] = []
        try:
            kept = self._open_some(kept, readers)
        except KafkaException as problem:
            error = problem
        with self._lock:
            coming = self.coming.get(owned)
            if coming is None or coming.epoch != kept.epoch or not owned.buffers.put(owned, kept.epoch, readers):
                return None
            owned.trouble_since = None
            if kept.batches:
                offset = readers[-1].next_offset if readers else coming.offset
                nbytes = sum(batch.size for batch in kept.batches)
                self.coming[owned] = coming._replace(offset=offset, nbytes=nbytes)
                if error is None:
                    self.kept[owned] = kept
            else:
                del self.coming[owned]
        consumer = kept.member.consumer()
        if readers and consumer is not None:
            consumer.arrived()
        return error

    def _open_some(self, kept: Kept, readers: list[BatchReader]) -> Kept:
        """Check and unpack batches into `readers`, up to the first one without room; return the rest."""
        owned = kept.member.owned
        reached = kept.wanted
        room = owned.buffers.max_bytes - owned.buffers.nbytes
        while kept.batches:
            batch = kept.batches[0]
            if batch.codec and room <= 0:
                break
            # a batch without messages takes offsets all the same
            if batch.base_offset in kept.aborted:
                reader = batch.skip()
            else:
                reader = self._open(batch, owned.buffers.max_unpacked)
                if not batch.is_control:
                    reader.max_timestamp = batch.max_timestamp
            reader.partition_id = owned.partition_id
            reader.partition = owned.partition
            reader.topic = owned.key.topic
            reader.leader_epoch = batch.leader_epoch
            reader.skip_to(reached)
            kept.batches.popleft()
            readers.append(reader)
            reached = max(reached, batch.next_offset)  # the next one may begin below that
            room -= reader.nbytes
        return kept._replace(wanted=reached)

    def _open(self, batch: RawBatch, max_unpacked: int) -> BatchReader:
        if batch.end - batch.start < OFFLOAD_FROM:
            return batch.open(max_unpacked=max_unpacked)
        return self._handler.offload(batch.open, max_unpacked=max_unpacked)
