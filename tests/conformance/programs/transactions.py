"""Programs of transactional producers."""

from __future__ import annotations

from pykafka.protocol import wire
from tests.conformance.programs.common import make_topic, messages, produce_request, read_all
from tests.conformance.programs.groups import LOADING, commit_request, fetch_offsets, find_coordinator
from tests.conformance.speaker import Speaker

#: The coordinator has yet to write the markers of the transaction before.
CONCURRENT = 51
Begun = wire.InitProducerIdResponse


def init(speaker: Speaker, transactional_id: str, timeout_ms: int = 30_000) -> Begun:
    """Return the id and epoch of a producer, and write them down."""
    request = wire.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    version = min(4, speaker.versions(wire.InitProducerIdRequest)[-1])
    for _ in range(200):  # a coordinator begins its work a little later than it is named
        if (found := speaker.ask(request, version)).error_code not in LOADING:
            break
        speaker.wait(0.05)
    speaker.note("init", speaker.described(found, version))
    return found


def add(
    speaker: Speaker, transactional_id: str, begun: Begun, topic: str, *, label: str = "add", epoch: int = -1
) -> None:
    """Add partition 0 of a topic to the transaction."""
    request = wire.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch if epoch < 0 else epoch,
        v3_and_below_topics=[wire.AddPartitionsToTxnRequest.Topic(name=topic, partitions=[0])],
    )
    version = min(3, speaker.versions(wire.AddPartitionsToTxnRequest)[-1])
    for _ in range(200):  # the end of the transaction before may be under way
        found = speaker.ask(request, version)
        if found.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code != CONCURRENT:
            break
        speaker.wait(0.05)
    speaker.note(label, speaker.described(found, version))


def write(
    speaker: Speaker, transactional_id: str, begun: Begun, topic: str, sequence: int, label: str = "write"
) -> None:
    """Write one message in the transaction."""
    version = min(speaker.versions(wire.ProduceRequest)[-1], 11)
    records = messages(
        version,
        [f"{label}-{sequence}"],
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
        base_sequence=sequence,
        transactional=True,
    )
    request = produce_request(speaker, version, topic, records, transactional_id=transactional_id)
    speaker.say(label, request, version)


def end(speaker: Speaker, transactional_id: str, begun: Begun, is_commit: bool, label: str = "end") -> None:
    """End the transaction, in a version of the first protocol of transactions."""
    request = wire.EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
        committed=is_commit,
    )
    speaker.say(
        f"{label} {'commit' if is_commit else 'abort'}", request, min(4, speaker.versions(wire.EndTxnRequest)[-1])
    )


def settle(speaker: Speaker, topic: str, count: int) -> None:
    """Wait until a partition has so many markers and messages: the coordinator writes markers after its answer."""
    partition = wire.ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)
    request = wire.ListOffsetsRequest(
        replica_id=-1, topics=[wire.ListOffsetsRequest.Topic(name=topic, partitions=[partition])], isolation_level=1
    )
    for _ in range(200):
        if speaker.ask(request, 2).topics[0].partitions[0].offset >= count:
            return
        speaker.wait(0.05)
    raise AssertionError(f"{topic} does not reach offset {count}")


def committed_and_aborted(speaker: Speaker) -> None:
    """Commit a transaction, abort one, and read both ways."""
    if not speaker.has(wire.EndTxnRequest):
        return
    make_topic(speaker, "both")
    find_coordinator(speaker, "both", 1)
    begun = init(speaker, "both")
    for number, is_commit in enumerate((True, False)):
        add(speaker, "both", begun, "both")
        write(speaker, "both", begun, "both", number)
        for isolation in (0, 1):
            read_all(speaker, f"open, isolation {isolation}", 4, "both", isolation)
        end(speaker, "both", begun, is_commit)
        settle(speaker, "both", 2 * number + 2)
    version = min(12, speaker.versions(wire.FetchRequest)[-1])
    for isolation in (0, 1):
        read_all(speaker, f"ended, isolation {isolation}", version, "both", isolation)
    end(speaker, "both", begun, True, "once more")
    end(speaker, "both", begun, False, "once more")


def transactions_that_are_refused(speaker: Speaker) -> None:
    """Write without a transaction, as a producer that another one replaced, with a time-out that is too long."""
    if not speaker.has(wire.EndTxnRequest):
        return
    make_topic(speaker, "fenced")
    find_coordinator(speaker, "fenced", 1)
    first = init(speaker, "fenced")
    end(speaker, "fenced", first, True, "nothing")
    add(speaker, "fenced", first, "fenced-none", label="add no topic")
    second = init(speaker, "fenced")
    add(speaker, "fenced", first, "fenced", label="add as the first")
    end(speaker, "fenced", first, True, "as the first")
    add(speaker, "fenced", second, "fenced")
    write(speaker, "fenced", second, "fenced", 0)
    write(speaker, "fenced", first, "fenced", 0, "write as the first")
    end(speaker, "fenced", second, True)
    add(speaker, "fenced", second, "fenced", label="add in a later epoch", epoch=40)
    init(speaker, "fenced", 2**31 - 1)
    init(speaker, "")
    strange = Begun(producer_id=99_999, producer_epoch=0)
    end(speaker, "fenced", strange, True, "as a stranger")
    end(speaker, "fenced-unknown", strange, True, "of nobody")


def add_offsets(speaker: Speaker, name: str, begun: Begun) -> None:
    """Add the offsets of the group that is named as the transactional id."""
    request = wire.AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=begun.producer_id, producer_epoch=begun.producer_epoch, group_id=name
    )
    speaker.say("add offsets", request, min(3, speaker.versions(wire.AddOffsetsToTxnRequest)[-1]))


def commit_offset(speaker: Speaker, name: str, begun: Begun, offset: int, version: int, label: str = "commit") -> None:
    """Commit an offset of the group that is named as the transactional id."""
    partition = wire.TxnOffsetCommitRequest.Topic.Partition(
        partition_index=0, committed_offset=offset, committed_metadata="m"
    )
    request = wire.TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=name,
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
        topics=[wire.TxnOffsetCommitRequest.Topic(name="commits", partitions=[partition])],
    )
    speaker.say(label, request, version)


def offsets_in_a_transaction(speaker: Speaker) -> None:
    """Commit offsets in a transaction: they are there once it ends, not before."""
    if not speaker.has(wire.TxnOffsetCommitRequest):
        return
    make_topic(speaker, "commits", 2)
    find_coordinator(speaker, "within", 1)
    find_coordinator(speaker, "within")
    begun = init(speaker, "within")
    for is_commit in (False, True):
        add_offsets(speaker, "within", begun)
        commit_offset(speaker, "within", begun, 7, min(2, speaker.versions(wire.TxnOffsetCommitRequest)[-1]))
        fetch_offsets(speaker, 5 if speaker.has(wire.OffsetFetchRequest, 5) else 1, "within")
        end(speaker, "within", begun, is_commit)
        speaker.wait(0.5)
        fetch_offsets(speaker, 5 if speaker.has(wire.OffsetFetchRequest, 5) else 1, "within")
    plain = min(speaker.versions(wire.OffsetCommitRequest)[-1], 7)
    speaker.say("commit without one", commit_request(speaker, plain, "within", 9), plain)


def offsets_that_come_late(speaker: Speaker) -> None:
    """Commit offsets behind their transaction: only the markers of a new epoch make all releases refuse them."""
    if not speaker.has(wire.InitProducerIdRequest, 3):
        return
    name = "late"
    make_topic(speaker, "commits", 2)
    find_coordinator(speaker, name, 1)
    find_coordinator(speaker, name)
    first = init(speaker, name)
    add_offsets(speaker, name, first)
    commit_offset(speaker, name, first, 7, 3)
    end(speaker, name, first, True)
    speaker.wait(0.5)
    fetch_offsets(speaker, 7, name, stable=True)
    commit_offset(speaker, name, first, 6, 3, "commit behind the end")
    fetch_offsets(speaker, 7, name, stable=True)
    request = wire.InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout_ms=30_000,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
    )
    second = speaker.say("take a new epoch", request, 4)
    assert second is not None
    fetch_offsets(speaker, 7, name, stable=True)
    commit_offset(speaker, name, first, 5, 3, "commit in the old epoch")
    fetch_offsets(speaker, 7, name, stable=True)
    add_offsets(speaker, name, second)
    end(speaker, name, second, False)
    speaker.wait(0.5)
    fetch_offsets(speaker, 7, name, stable=True)
    commit_offset(speaker, name, first, 4, 3, "commit behind the markers of the new epoch")
    fetch_offsets(speaker, 7, name, stable=True)


TRANSACTIONS = (
    committed_and_aborted,
    transactions_that_are_refused,
    offsets_in_a_transaction,
    offsets_that_come_late,
)
