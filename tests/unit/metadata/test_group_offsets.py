"""Committed offsets of topics that are told by their ids (KIP-848): requests, and what answers mean."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.exceptions import IncompleteResponseError, UnknownTopicId
from pykafka.metadata.group_offsets import (
    COMMIT_BY_ID,
    COMMIT_CEILING,
    FETCH_BY_ID,
    FETCH_CEILING,
    commit_failures,
    commit_request,
    committed_offsets,
    fetch_request,
)
from pykafka.protocol import wire

IDS = {"a": UUID(int=1), "b": UUID(int=2)}
KEYS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
OFFSETS = {key: OffsetAndMetadata(10 + number, "m") for number, key in enumerate(KEYS)}


@pytest.mark.parametrize("version", [COMMIT_CEILING, COMMIT_BY_ID])
def test_commits_name_topics_as_their_version_does(version: int) -> None:
    request = commit_request("g", version, (3, "me"), OFFSETS, ids=IDS)
    sent = wire.OffsetCommitRequest.decode(request.encode(version), version)
    by_id = version == COMMIT_BY_ID
    assert [(topic.name, topic.topic_id.int) for topic in sent.topics] == (
        [("", 1), ("", 2)] if by_id else [("a", 0), ("b", 0)]
    )
    response = wire.OffsetCommitResponse
    part = response.Topic.Partition
    answer = response(
        topics=[
            response.Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    part(partition_index=one.partition_index, error_code=100 if topic is sent.topics[1] else 0)
                    for one in topic.partitions
                ],
            )
            for topic in sent.topics
        ]
    )
    told = response.decode(answer.encode(version), version)
    failures = commit_failures(told, "here", KEYS, IDS)
    assert list(failures) == [KEYS[2]]
    assert isinstance(failures[KEYS[2]], UnknownTopicId)
    assert failures[KEYS[2]].context["topic"] == "b"


def test_a_commit_of_an_unknown_id_is_an_answer_left_out() -> None:
    topic = wire.OffsetCommitResponse.Topic
    answer = wire.OffsetCommitResponse(
        topics=[topic(topic_id=UUID(int=9), partitions=[topic.Partition(partition_index=0)])]
    )
    failures = commit_failures(answer, "here", KEYS[:1], IDS)
    assert isinstance(failures[KEYS[0]], IncompleteResponseError)


@pytest.mark.parametrize("version", [FETCH_CEILING, FETCH_BY_ID])
def test_committed_offsets_are_asked_for_by_name_or_id(version: int) -> None:
    request = fetch_request("g", version, KEYS, IDS)
    sent = wire.OffsetFetchRequest.decode(request.encode(version), version)
    response = wire.OffsetFetchResponse
    if version == FETCH_BY_ID:
        assert [topic.topic_id for topic in sent.groups[0].topics or ()] == list(IDS.values())
        of = response.Group
        topics = [
            of.Topic(
                topic_id=topic.topic_id,
                partitions=[
                    of.Topic.Partition(partition_index=index, committed_offset=10 + index, metadata="m")
                    for index in topic.partition_indexes
                ],
            )
            for topic in sent.groups[0].topics or ()
        ]
        answer = response(groups=[of(group_id="g", topics=topics)])
    else:
        answer = response(
            topics=[
                response.Topic(
                    name=topic.name,
                    partitions=[
                        response.Topic.Partition(partition_index=index, committed_offset=10 + index, metadata="m")
                        for index in topic.partition_indexes
                    ],
                )
                for topic in sent.topics or ()
            ]
        )
    told = response.decode(answer.encode(version), version)
    found = committed_offsets(told, "here", KEYS, IDS, version=version)
    assert {key: value.offset for key, value in found.items()} == {KEYS[0]: 10, KEYS[1]: 11, KEYS[2]: 10}


def test_what_is_wrong_with_a_group_or_a_topic_is_raised() -> None:
    of = wire.OffsetFetchResponse.Group
    with pytest.raises(Exception, match="coordinator"):
        committed_offsets(wire.OffsetFetchResponse(groups=[of(error_code=16)]), "coordinator", KEYS, version=10)
    part = of.Topic.Partition(partition_index=0, error_code=100)
    answer = wire.OffsetFetchResponse(groups=[of(topics=[of.Topic(topic_id=IDS["a"], partitions=[part])])])
    with pytest.raises(UnknownTopicId) as caught:
        committed_offsets(answer, "here", KEYS[:1], IDS, version=10)
    assert caught.value.topic == "a"


@pytest.mark.parametrize(("commit", "fetch"), [(6, 5), (8, 7), (10, 10)])
def test_commits_have_the_leader_epoch_of_the_record_before(commit: int, fetch: int) -> None:
    known, unknown = TopicPartition("t", 0), TopicPartition("t", 1)
    ids = {"t": UUID(int=7)}
    wanted = {known: OffsetAndMetadata(5), unknown: OffsetAndMetadata(6)}
    request = commit_request("g", commit, (-1, ""), wanted, ids=ids, epochs={known: 3})
    sent = wire.OffsetCommitRequest.decode(request.encode(commit), commit)
    assert [part.committed_leader_epoch for part in sent.topics[0].partitions] == [3, -1]

    group = fetch >= 8
    kind: Any = wire.OffsetFetchResponse.Group.Topic if group else wire.OffsetFetchResponse.Topic
    parts = [
        kind.Partition(partition_index=0, committed_offset=5, committed_leader_epoch=3, metadata="", error_code=0),
        kind.Partition(partition_index=1, committed_offset=6, metadata=None, error_code=0),
    ]
    topic = kind(name="t", topic_id=ids["t"], partitions=parts) if group else kind(name="t", partitions=parts)
    answer = (
        wire.OffsetFetchResponse(groups=[wire.OffsetFetchResponse.Group(group_id="g", topics=[topic])])
        if group
        else wire.OffsetFetchResponse(topics=[topic])
    )
    told = wire.OffsetFetchResponse.decode(answer.encode(fetch), fetch)
    found = committed_offsets(told, "b:1", [known, unknown], ids, version=fetch)
    assert found == wanted
    assert [one.leader_epoch for one in found.values()] == [3, -1]
