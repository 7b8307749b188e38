"""Programs about topics and what brokers say of themselves."""

from __future__ import annotations

from pykafka.protocol import wire
from tests.conformance.programs.common import make_topic
from tests.conformance.speaker import Speaker


def api_versions(speaker: Speaker) -> None:
    """Ask for versions in each version, and in one that no broker knows."""
    for version in speaker.versions(wire.ApiVersionsRequest):
        request = wire.ApiVersionsRequest()
        if version >= 3:
            request.client_software_name, request.client_software_version = "conformance", "1"
        found = speaker.ask(request, version)
        shown = [[one.api_key, one.min_version, one.max_version] for one in found.api_keys]
        known = [row for row in shown if row[0] in CLIENT_APIS]
        speaker.note(f"versions v{version}", [found.error_code, known])


#: The APIs that clients call: those between brokers are not compared.
CLIENT_APIS = {
    *range(4),
    *range(8, 27),
    28,
    *range(29, 52),
    55,
    57,
    60,
    61,
    65,
    66,
    68,
    69,
    74,
    75,
    *range(76, 80),
    90,
    91,
    92,
}


def metadata_of_topics(speaker: Speaker) -> None:
    """Ask for a topic, one that is not there, one with an impossible name."""
    make_topic(speaker, "metadata", 3)
    for version in speaker.versions(wire.MetadataRequest):
        for name in ("metadata", "no-such-topic", "im/possible"):
            if version < 4 and name != "metadata":
                continue  # it would create the topic
            request = wire.MetadataRequest(topics=[wire.MetadataRequest.Topic(name=name)])
            request.allow_auto_topic_creation = version < 4
            found = speaker.ask(request, version)
            speaker.note(f"{name} v{version}", [speaker.described(topic, version) for topic in found.topics])


def creation_of_topics(speaker: Speaker) -> None:
    """Create topics that can and cannot be."""
    for version in speaker.versions(wire.CreateTopicsRequest):
        name = f"creation-{version}"
        wanted = wire.CreateTopicsRequest.Topic
        config = wire.CreateTopicsRequest.Topic.Config
        for label, topic in {
            "new": wanted(name=name, num_partitions=2, replication_factor=1),
            "again": wanted(name=name, num_partitions=2, replication_factor=1),
            "no partitions": wanted(name=f"{name}-0", num_partitions=0, replication_factor=1),
            "too many replicas": wanted(name=f"{name}-1", num_partitions=1, replication_factor=9),
            "impossible name": wanted(name="a/b", num_partitions=1, replication_factor=1),
            "no name": wanted(name="", num_partitions=1, replication_factor=1),
            "unknown config": wanted(
                name=f"{name}-2", num_partitions=1, replication_factor=1, configs=[config(name="a", value="b")]
            ),
            "bad config": wanted(
                name=f"{name}-3",
                num_partitions=1,
                replication_factor=1,
                configs=[config(name="retention.ms", value="soon")],
            ),
        }.items():
            found = speaker.ask(wire.CreateTopicsRequest(topics=[topic], timeout_ms=5000), version)
            row = found.topics[0]
            more = [row.num_partitions, row.replication_factor] if version >= 5 and not row.error_code else []
            speaker.note(f"{label} v{version}", [row.error_code, *more])


def deletion_of_topics(speaker: Speaker) -> None:
    """Delete a topic, and one that is not there."""
    for version in speaker.versions(wire.DeleteTopicsRequest):
        name = f"deletion-{version}"
        make_topic(speaker, name)
        for label, one in (("there", name), ("not there", f"{name}-none")):
            request = wire.DeleteTopicsRequest(timeout_ms=5000)
            if version >= 6:
                request.topics = [wire.DeleteTopicsRequest.Topic(name=one)]
            else:
                request.topic_names = [one]
            speaker.say(label, request, version)


def more_partitions(speaker: Speaker) -> None:
    """Give a topic more partitions, and fewer."""
    if not speaker.has(wire.CreatePartitionsRequest):
        return
    make_topic(speaker, "more", 2)
    for count in (4, 3, 4):
        wanted = wire.CreatePartitionsRequest.Topic(name="more", count=count, assignments=None)
        speaker.say(f"to {count}", wire.CreatePartitionsRequest(topics=[wanted], timeout_ms=5000))
    wanted = wire.CreatePartitionsRequest.Topic(name="more-none", count=4, assignments=None)
    speaker.say("of none", wire.CreatePartitionsRequest(topics=[wanted], timeout_ms=5000))


TOPICS = (api_versions, metadata_of_topics, creation_of_topics, deletion_of_topics, more_partitions)
