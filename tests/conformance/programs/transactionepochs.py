"""Programs about transactions in detail: epochs that are raised, requests that come twice, offsets of members."""

from __future__ import annotations

from typing import Any

from pykafka.protocol import wire
from tests.conformance.programs.common import make_topic, messages, produce_request
from tests.conformance.programs.groups import LOADING, fetch_offsets, find_coordinator, join, join_request
from tests.conformance.programs.transactions import CONCURRENT, Begun, add, add_offsets, end, init, settle, write
from tests.conformance.speaker import Speaker

#: The first version of InitProducerId with the producer's id and epoch (KIP-360).
_EPOCHS = 3
_Init = wire.InitProducerIdRequest


def _init(
    speaker: Speaker, label: str, name: str | None, producer_id: int, epoch: int, version: int, timeout_ms: int = 30_000
) -> Begun:
    # The next epoch; until the end of a transaction that this aborts.
    request = _Init(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch
    )
    found = speaker.ask(request, version)
    is_aborting = found.error_code == CONCURRENT
    for _ in range(200):
        if found.error_code not in (CONCURRENT, *LOADING):
            break
        speaker.wait(0.05)
        found = speaker.ask(request, version)
    row = speaker.described(found, version)
    speaker.note(f"{label}: InitProducerId v{version}{', again' * is_aborting}", row)
    return found


def epochs_of_producers(speaker: Speaker) -> None:
    """Ask for the next epoch, with the present one, the one before, strange ones, with and without a transaction."""
    if not speaker.has(_Init, _EPOCHS):
        return
    make_topic(speaker, "epochs-of")
    for version in speaker.versions(_Init, _EPOCHS):
        if version > 5:
            continue
        name = f"epochs-{version}"
        find_coordinator(speaker, name, 1)
        none = -1
        _init(speaker, "an id that was never there, with a producer", name, 99_999, 3, version)
        first = _init(speaker, "new", name, none, none, version)
        mine = first.producer_id
        second = _init(speaker, "the next one", name, mine, first.producer_epoch, version)
        _init(speaker, "the same once more", name, mine, first.producer_epoch, version)
        third = _init(speaker, "the next one", name, mine, second.producer_epoch, version)
        _init(speaker, "two behind", name, mine, first.producer_epoch, version)
        _init(speaker, "ahead", name, mine, third.producer_epoch + 5, version)
        _init(speaker, "another producer", name, 99_999, 3, version)
        _init(speaker, "an id without an epoch", name, mine, none, version)
        _init(speaker, "an epoch without an id", name, none, 3, version)
        add(speaker, name, third, "epochs-of")
        write(speaker, name, third, "epochs-of", 0)
        fourth = _init(speaker, "in a transaction", name, mine, third.producer_epoch, version)
        end(speaker, name, third, True, "the old one")
        add(speaker, name, third, "epochs-of", label="the old one adds")
        _init(speaker, "the old one after that", name, mine, third.producer_epoch, version)
        add(speaker, name, fourth, "epochs-of")
        _init(speaker, "the old one in a transaction", name, mine, third.producer_epoch, version)
        end(speaker, name, fourth, True)
        fifth = _init(speaker, "without its id", name, none, none, version)
        _init(speaker, "with the epoch before", name, mine, fourth.producer_epoch, version)
        sixth = _init(speaker, "after that", name, mine, fifth.producer_epoch, version)
        speaker.note("the same producer", sixth.producer_id == mine)
        _init(speaker, "no transactional id", None, none, none, version)
        _init(speaker, "no transactional id, with a producer", None, mine, 0, version)
        _init(speaker, "no transactional id, no time", None, none, none, version, 0)
        _init(speaker, "no time", name, none, none, version, 0)


def _add(speaker: Speaker, label: str, name: str, begun: Begun, topics: list[tuple[str, list[int]]]) -> None:
    api = wire.AddPartitionsToTxnRequest
    request = api(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=[api.Topic(name=topic, partitions=partitions) for topic, partitions in topics],
    )
    version = min(3, speaker.versions(api)[-1])
    found = speaker.ask(request, version)
    for _ in range(200):
        codes = {
            row.partition_error_code for one in found.results_by_topic_v3_and_below for row in one.results_by_partition
        }
        if CONCURRENT not in codes:
            break
        speaker.wait(0.05)
        found = speaker.ask(request, version)
    rows = [
        [one.name, row.partition_index, row.partition_error_code]
        for one in found.results_by_topic_v3_and_below
        for row in one.results_by_partition
    ]
    speaker.note(f"{label}: AddPartitionsToTxn v{version}", sorted(rows))


def _describe(speaker: Speaker, label: str, name: str) -> None:
    if not speaker.has(wire.DescribeTransactionsRequest):
        return
    found = speaker.ask(wire.DescribeTransactionsRequest(transactional_ids=[name])).transaction_states[0]
    if found.error_code:
        found.producer_id = -1  # it is 0, which may be another's
    row = speaker.described(found, 0)
    row["transaction_start_time_ms"] = found.transaction_start_time_ms > 0
    # How many partitions the topic of offsets has is a setting.
    row["topics"] = sorted([one.topic, one.topic[0] != "_" and sorted(one.partitions)] for one in found.topics)
    speaker.note(f"{label}: DescribeTransactions v0", row)


def transaction_requests_that_come_twice(speaker: Speaker) -> None:
    """Add what is there, what is not there, and end the transaction again and in the other way."""
    if not speaker.has(wire.EndTxnRequest):
        return
    make_topic(speaker, "twice", 2)
    name = "twice"
    find_coordinator(speaker, name, 1)
    _describe(speaker, "nothing", name)
    begun = init(speaker, name)
    # Brokers of 1.1.1 look for the topic alone.
    absent = [("twice", [0, 7] if speaker.numbers >= (2,) else [0]), ("twice-none", [0])]
    for is_commit in (True, False):
        _describe(speaker, "before", name)
        _add(speaker, "two", name, begun, [("twice", [0, 1])])
        _add(speaker, "one again", name, begun, [("twice", [0])])
        _add(speaker, "one that is not there", name, begun, absent)
        _add(speaker, "none", name, begun, [])
        add_offsets(speaker, name, begun)
        add_offsets(speaker, name, begun)
        request = wire.AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=begun.producer_id, producer_epoch=begun.producer_epoch, group_id=""
        )
        speaker.say("add no group", request)
        _describe(speaker, "in it", name)
        end(speaker, name, begun, is_commit)
        settle(speaker, "twice", 1 + (not is_commit))
        speaker.wait(0.3)
        end(speaker, name, begun, is_commit, "again")
        end(speaker, name, begun, not is_commit, "otherwise")
        _describe(speaker, "after it", name)
    _add(speaker, "without an id", "", begun, [("twice", [0])])
    add_offsets(speaker, "", begun)
    end(speaker, "", begun, True, "without an id")
    other = Begun(producer_id=begun.producer_id + 1_000, producer_epoch=begun.producer_epoch)
    stale = Begun(producer_id=begun.producer_id, producer_epoch=begun.producer_epoch + 1)
    for label, one in (("another producer", other), ("a later epoch", stale)):
        _add(speaker, label, name, one, [("twice", [0])])
        add_offsets(speaker, name, one)
        if speaker.numbers >= (2,) or one is other:  # earlier ones end for producers of the future
            end(speaker, name, one, False, label)
    lowest = wire.AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=begun.producer_id, producer_epoch=stale.producer_epoch, group_id="g"
    )
    for version in speaker.versions(wire.AddOffsetsToTxnRequest):
        speaker.say("a later epoch", lowest, version)
    ending = wire.EndTxnRequest(
        transactional_id=name, producer_id=begun.producer_id, producer_epoch=stale.producer_epoch, committed=True
    )
    for version in speaker.versions(wire.EndTxnRequest) if speaker.numbers >= (2,) else ():
        speaker.say("a later epoch", ending, version)


def second_version_of_transactions(speaker: Speaker) -> None:
    """Write without adding, and end with EndTxn 5, which gives the next epoch (KIP-890)."""
    if not speaker.has(wire.EndTxnRequest, 5) or not speaker.has(wire.ProduceRequest, 12):
        return
    make_topic(speaker, "second")
    name = "second"
    find_coordinator(speaker, name, 1)
    begun: Any = init(speaker, name)

    def finish(label: str, one: Any, is_commit: bool) -> Any:
        # EndTxn; what it says while the markers are written is not compared.
        request = wire.EndTxnRequest(
            transactional_id=name, producer_id=one.producer_id, producer_epoch=one.producer_epoch, committed=is_commit
        )
        found = speaker.ask(request, 5)
        for _ in range(200):
            if found.error_code != CONCURRENT:
                break
            speaker.wait(0.05)
            found = speaker.ask(request, 5)
        speaker.note(f"{label}: EndTxn v5", speaker.described(found, 5))
        speaker.wait(0.3)
        return found

    def put(label: str, one: Any, sequence: int) -> None:
        records = messages(
            12,
            [label],
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        speaker.say(label, produce_request(speaker, 12, "second", records, transactional_id=name), 12)

    finish("commit of nothing", begun, True)
    begun = finish("abort of nothing", begun, False)
    for is_commit in (True, False):
        put("write", begun, 0)
        put("write again", begun, 0)
        put("write on", begun, 1)
        _describe(speaker, "in it", name)
        following = finish("end", begun, is_commit)
        again = finish("end again", begun, is_commit)
        speaker.note("the same", again.producer_epoch == following.producer_epoch)
        finish("end otherwise", begun, not is_commit)
        put("write in the old epoch", begun, 2)
        _describe(speaker, "after it", name)
        begun = following
    finish("commit of nothing", begun, True)
    stale = Begun(producer_id=begun.producer_id, producer_epoch=begun.producer_epoch + 3)
    finish("a later epoch", stale, True)
    put("write in a later epoch", stale, 0)
    begun = finish("abort of nothing", begun, False)
    end(speaker, name, begun, True, "in the first version, of nothing")
    add(speaker, name, begun, "second")
    end(speaker, name, begun, True, "in the first version")


def offsets_of_members_in_a_transaction(speaker: Speaker) -> None:
    """Commit offsets in a transaction as a member, in a wrong generation, as nobody, under another instance id (KIP-447)."""
    api = wire.TxnOffsetCommitRequest
    if not speaker.has(api, 3):
        return
    name, group = "members-within", "members-within"
    make_topic(speaker, "commits", 2)
    find_coordinator(speaker, name, 1)
    find_coordinator(speaker, group)
    init(speaker, name)
    begun = init(speaker, name)
    add_offsets(speaker, name, begun)
    offsets = iter(range(1, 100))

    def commit(label: str, member: str, generation: int, instance: str | None = None, **more: Any) -> None:
        for version in (3, min(4, speaker.versions(api)[-1])):
            part = api.Topic.Partition(partition_index=0, committed_offset=next(offsets), committed_metadata="")
            strange = api.Topic.Partition(partition_index=7, committed_offset=1, committed_metadata="")
            request = api(
                transactional_id=name,
                group_id=group,
                producer_id=begun.producer_id,
                producer_epoch=begun.producer_epoch,
                generation_id_or_member_epoch=generation,
                member_id=member,
                group_instance_id=instance,
                topics=[api.Topic(name="commits", partitions=[part, strange])],
            )
            for field, value in more.items():
                setattr(request, field, value)
            speaker.say(label, request, version)

    commit("no group yet, no member", "", -1)
    commit("no group yet, a generation", "", 1)
    commit("no group yet, a member", "nobody", 1)
    version = min(speaker.versions(wire.JoinGroupRequest)[-1], 9)
    found = join(speaker, version, group)
    member, generation = found.member_id, found.generation_id
    commit("before the sync", member, generation)
    own = wire.SyncGroupRequest.Assignment(member_id=member, assignment=b"mine")
    sync = wire.SyncGroupRequest(group_id=group, generation_id=generation, member_id=member, assignments=[own])
    speaker.ask(sync, 4)
    commit("as a member", member, generation)
    commit("an old generation", member, generation - 1)
    commit("a later generation", member, generation + 1)
    commit("a member without a generation", member, -1)
    commit("nobody", "nobody", generation)
    commit("no member", "", -1)
    commit("no member, a generation", "", generation)
    commit("an instance id", member, generation, "none")
    speaker.say("join again", join_request(version, group, member), version)
    commit("before the second sync", member, generation + 1)
    commit("the generation before", member, generation)
    commit("an old epoch", member, generation + 1, producer_epoch=begun.producer_epoch - 1)
    if speaker.numbers >= (4,):  # 3.9.2 takes it, and then cannot write the markers
        commit("a later epoch", member, generation + 1, producer_epoch=begun.producer_epoch + 1)
    commit("another producer", member, generation + 1, producer_id=begun.producer_id + 1_000)
    commit("another transactional id", member, generation + 1, transactional_id="members-none")
    commit("another group", "", -1, group_id="members-none")
    commit("no group", "", -1, group_id="")
    end(speaker, name, begun, True)
    speaker.wait(0.5)
    fetch_offsets(speaker, 7, group, stable=True)


def transactions_for_administrators(speaker: Speaker) -> None:
    """List and describe transactions and producers, in each state, with each filter."""
    api = wire.ListTransactionsRequest
    if not speaker.has(api):
        return
    make_topic(speaker, "shown", 2)
    begun = {}
    for name in ("shown-empty", "shown-ongoing", "shown-ended"):
        find_coordinator(speaker, name, 1)
        begun[name] = init(speaker, name)
        if name != "shown-empty":
            add(speaker, name, begun[name], "shown")
            write(speaker, name, begun[name], "shown", 0)
    end(speaker, "shown-ended", begun["shown-ended"], False)
    speaker.wait(0.5)
    ids = sorted(one.producer_id for one in begun.values())
    filters: list[dict[str, Any]] = [
        {},
        {"state_filters": ["Ongoing"]},
        {"state_filters": ["ongoing"]},
        {"state_filters": ["Empty", "CompleteAbort", "no state"]},
        {"producer_id_filters": ids[:1]},
        {"producer_id_filters": [2**60]},
        {"producer_id_filters": ids, "state_filters": ["Empty"]},
    ]
    for version in speaker.versions(api):
        more = [{"duration_filter": 3_600_000}, {"duration_filter": 0}] if version >= 1 else []
        patterns = ["shown-.*", "shown", "", "shown-e.*d", "shown["] if version >= 2 else []
        for one in [*filters, *more, *({"transactional_id_pattern": pattern} for pattern in patterns)]:
            found = speaker.ask(api(**one), version)
            mine = [
                [row.transactional_id, row.transaction_state]
                for row in found.transaction_states
                if row.transactional_id.startswith("shown")
            ]
            shown = {key: len(value) if key == "producer_id_filters" else value for key, value in one.items()}
            speaker.note(
                f"{shown}: ListTransactions v{version}", [found.error_code, found.unknown_state_filters, sorted(mine)]
            )
    for name in ("shown-empty", "shown-ongoing", "shown-ended", "shown-none", ""):
        _describe(speaker, name, name)
    describe = wire.DescribeProducersRequest
    for topic, partitions in (("shown", [0, 1, 7]), ("shown-none", [0])):
        found_producers = speaker.ask(describe(topics=[describe.Topic(name=topic, partition_indexes=partitions)]))
        for row in sorted(found_producers.topics[0].partitions, key=lambda row: row.partition_index):
            producers = [
                [one.producer_epoch, one.last_sequence, one.coordinator_epoch, one.current_txn_start_offset]
                for one in row.active_producers
            ]
            speaker.note(
                f"{topic}-{row.partition_index}: DescribeProducers",
                [row.error_code, bool(row.error_message), sorted(producers)],
            )
    end(speaker, "shown-ongoing", begun["shown-ongoing"], True)


TRANSACTION_EPOCHS = (
    epochs_of_producers,
    transaction_requests_that_come_twice,
    second_version_of_transactions,
    offsets_of_members_in_a_transaction,
    transactions_for_administrators,
)
