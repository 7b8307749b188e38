"""Programs that write."""

from __future__ import annotations

from pykafka.protocol import wire
from tests.conformance.programs.common import fetch_request, make_topic, messages, produce_request, read_all
from tests.conformance.programs.groups import LOADING
from tests.conformance.speaker import Speaker


def writes_of_each_version(speaker: Speaker) -> None:
    """Write in each version, and read it in the lowest and the highest version."""
    fetches = speaker.versions(wire.FetchRequest)
    for version in speaker.versions(wire.ProduceRequest):
        if speaker.numbers >= (4,) and version < 3:
            continue  # announced for the sake of an old library, and refused
        topic = f"writes-{version}"
        make_topic(speaker, topic)
        for codec in (0, 1):
            records = messages(version, ["a", "b", "c"], codec)
            speaker.say(f"codec {codec}", produce_request(speaker, version, topic, records), version)
        for fetch in sorted({fetches[0], fetches[-1]}):
            speaker.say(topic, fetch_request(speaker, fetch, topic, 0), fetch)
        speaker.say(f"{topic} from within", fetch_request(speaker, fetches[-1], topic, 4), fetches[-1])


def writes_that_are_refused(speaker: Speaker) -> None:
    """Write to partitions that are not there, with acks that are none, and what is corrupt."""
    make_topic(speaker, "refused")
    versions = speaker.versions(wire.ProduceRequest, 3 if speaker.numbers >= (4,) else 0)
    for version in {versions[0], min(versions[-1], 12)}:
        good = messages(version, ["x"])
        bad = bytearray(good)
        bad[-1] ^= 255
        for label, request in {
            "no partition": produce_request(speaker, version, "refused", good, index=7),
            "no topic": produce_request(speaker, version, "refused-none", good),
            "acks 2": produce_request(speaker, version, "refused", good, acks=2),
            "acks 1": produce_request(speaker, version, "refused", good, acks=1),
            "corrupt": produce_request(speaker, version, "refused", bytes(bad)),
        }.items():
            speaker.say(label, request, version)
    lowest = speaker.versions(wire.FetchRequest)[0]
    speaker.say("what is there", fetch_request(speaker, lowest, "refused", 0), lowest)


def new_producer_id(speaker: Speaker) -> int:
    """Return the id of a new idempotent producer; wait until its coordinator has begun its work."""
    for _ in range(200):
        found = speaker.ask(wire.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
        if found.error_code not in LOADING:
            break
        speaker.wait(0.05)
    return found.producer_id


def sequences(speaker: Speaker) -> None:
    """Write as an idempotent producer: in order, twice, with a gap, in an older epoch."""
    if not speaker.has(wire.InitProducerIdRequest):
        return
    make_topic(speaker, "sequences")
    producer_id = new_producer_id(speaker)
    version = min(speaker.versions(wire.ProduceRequest)[-1], 12)
    for label, epoch, sequence, count in (
        ("first", 0, 0, 2),
        ("next", 0, 2, 1),
        ("next twice", 0, 2, 1),
        ("first once more", 0, 0, 2),
        ("a gap", 0, 5, 1),
        ("three", 0, 3, 1),
        ("a new epoch that begins late", 1, 4, 1),
        ("a new epoch", 1, 0, 1),
        ("the old epoch", 0, 4, 1),
    ):
        records = messages(
            version,
            [f"{label}-{number}" for number in range(count)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        speaker.say(label, produce_request(speaker, version, "sequences", records), version)
    read_all(speaker, "all", 4, "sequences")


def producers_whose_records_are_deleted(speaker: Speaker) -> None:
    """Delete the records of idempotent producers, and let them write on: brokers before 2.4 know them no more."""
    if not speaker.has(wire.InitProducerIdRequest):
        return
    version, topic = min(speaker.versions(wire.ProduceRequest)[-1], 12), "deleted"
    make_topic(speaker, topic)

    def write(label: str, producer_id: int, sequence: int, count: int = 1) -> None:
        values = [f"{label}-{number}" for number in range(count)]
        records = messages(version, values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        speaker.say(label, produce_request(speaker, version, topic, records), version)

    def delete(before: int) -> None:
        row = wire.DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=before)
        wanted = wire.DeleteRecordsRequest.Topic(name=topic, partitions=[row])
        speaker.say(f"delete before {before}", wire.DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000))

    one, other = new_producer_id(speaker), new_producer_id(speaker)
    write("one", one, 0, 2)
    write("other", other, 0)
    delete(2)
    write("one goes on", one, 2)
    write("other goes on", other, 1)
    delete(-1)
    write("other goes on with nothing there", other, 2)
    write("other begins anew", other, 0)
    write("one sends its last batch again", one, 2)
    delete(-1)
    write("one begins anew", one, 0)
    write("one goes on from there", one, 1)
    write("a gap", one, 3)
    read_all(speaker, "all", 4, topic)


WRITING = (writes_of_each_version, writes_that_are_refused, sequences, producers_whose_records_are_deleted)
