"""Programs that read."""

from __future__ import annotations

from pykafka.protocol import wire
from tests.conformance.programs.common import TIME_MS, fetch_request, make_topic, write
from tests.conformance.speaker import Speaker


def reads_of_each_version(speaker: Speaker) -> None:
    """Read from each version: in the log, at its end, beyond, a partition that is not there, too small a limit."""
    make_topic(speaker, "reads")
    write(speaker, "reads", ["a", "b", "c", "d"])
    for version in speaker.versions(wire.FetchRequest):
        for label, request in {
            "start": fetch_request(speaker, version, "reads", 0),
            "end": fetch_request(speaker, version, "reads", 4),
            "beyond": fetch_request(speaker, version, "reads", 9),
            "no partition": fetch_request(speaker, version, "reads", 0, index=7),
            "small": fetch_request(speaker, version, "reads", 0, max_bytes=10),
        }.items():
            if label == "small" and version < 3:
                continue  # what is cut off is not compared
            speaker.say(label, request, version)


def offsets_by_time(speaker: Speaker) -> None:
    """List offsets by time, in each version."""
    make_topic(speaker, "times")
    for values in (["a", "b"], ["c", "d", "e"]):
        write(speaker, "times", values)
    wanted = wire.ListOffsetsRequest.Topic
    for version in speaker.versions(wire.ListOffsetsRequest):
        times = [-1, -2, *([TIME_MS, TIME_MS + 1, TIME_MS + 2, TIME_MS + 99] if version >= 1 else [])]
        times += [-3] if version >= 7 else []
        times += [-4] if version >= 8 else []
        times += [-5] if version >= 9 else []
        for time_ms in times:
            partition = wanted.Partition(partition_index=0, timestamp=time_ms)
            request = wire.ListOffsetsRequest(replica_id=-1, topics=[wanted(name="times", partitions=[partition])])
            if version >= 10:
                request.timeout_ms = 1000
            speaker.say(f"time {time_ms}", request, version)
        partition = wanted.Partition(partition_index=9, timestamp=-1)
        request = wire.ListOffsetsRequest(replica_id=-1, topics=[wanted(name="times", partitions=[partition])])
        speaker.say("no partition", request, version)


def epochs(speaker: Speaker) -> None:
    """Ask where leader epochs end."""
    make_topic(speaker, "epochs")
    write(speaker, "epochs", ["a", "b"])
    for version in speaker.versions(wire.OffsetForLeaderEpochRequest):
        for label, index, current, epoch in (
            ("now", 0, -1, 0),
            ("a later epoch", 0, -1, 5),
            ("a later current epoch", 0, 7, 0),
            ("no partition", 9, -1, 0),
        ):
            wanted = wire.OffsetForLeaderEpochRequest.Topic
            partition = wanted.Partition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
            request = wire.OffsetForLeaderEpochRequest(topics=[wanted(topic="epochs", partitions=[partition])])
            speaker.say(label, request, version)


def sessions(speaker: Speaker) -> None:
    """Fetch with a session: the first request, nothing new, a forgotten partition, wrong epochs."""
    if not speaker.has(wire.FetchRequest, 7):
        return
    make_topic(speaker, "sessions", 2)
    write(speaker, "sessions", ["a"])
    version = min(speaker.versions(wire.FetchRequest)[-1], 12)

    def ask(label: str, session_id: int, epoch: int, request: wire.FetchRequest) -> wire.FetchResponse:
        request.session_id, request.session_epoch = session_id, epoch
        found = speaker.ask(request, version)
        shown = [[one.partition_index, one.error_code] for topic in found.responses for one in topic.partitions]
        speaker.note(label, [found.error_code, bool(found.session_id), shown])
        return found

    both = fetch_request(speaker, version, "sessions", 0)
    second = wire.FetchRequest.Topic.Partition(partition=1, partition_max_bytes=1000, current_leader_epoch=-1)
    both.topics[0].partitions.append(second)
    found = ask("full", 0, 0, both)
    empty = wire.FetchRequest(max_wait_ms=50, min_bytes=1, max_bytes=1000, topics=[])
    ask("again: what is there comes once more", found.session_id, 1, empty)
    forgets = wire.FetchRequest(max_wait_ms=50, min_bytes=1, max_bytes=1000, topics=[])
    forgets.forgotten_topics_data = [wire.FetchRequest.ForgottenTopic(topic="sessions", partitions=[0])]
    ask("one partition is forgotten", found.session_id, 2, forgets)
    ask("an epoch too many", found.session_id, 9, empty)
    ask("no such session", 12345, 1, empty)
    ask("the end", found.session_id, -1, empty)
    ask("after the end", found.session_id, 3, empty)


READING = (reads_of_each_version, offsets_by_time, epochs, sessions)
