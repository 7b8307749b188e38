"""Members of groups, as each kind of description has them."""

from __future__ import annotations

from pykafka.admin.group_types import classic_member, consumer_member, share_member, streams_members
from pykafka.common import TopicPartition
from pykafka.compat.messages.groups import ConsumerGroupProtocolMetadata, MemberAssignment
from pykafka.protocol import wire


def parts(topic: str, *ids: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, id_) for id_ in ids)


def test_a_member_of_a_classic_group() -> None:
    told = wire.DescribeGroupsResponse.Group.Member(
        member_id="m",
        client_id="c",
        client_host="/10.0.0.1",
        member_metadata=bytes(ConsumerGroupProtocolMetadata(topic_names=["a", "b"]).get_bytes()),
        member_assignment=bytes(MemberAssignment([("b", [1, 0]), ("a", [2])]).get_bytes()),
    )
    member = classic_member(told, of_consumers=True)
    assert (member.host, member.subscription) == ("10.0.0.1", ("a", "b"))
    assert member.assignment == parts("a", 2) + parts("b", 0, 1)
    assert (member.target, member.epoch) == (None, None)
    assert classic_member(told, of_consumers=False).assignment == ()
    told.member_metadata = told.member_assignment = b"another format"
    assert classic_member(told, of_consumers=True).subscription == ()


def test_members_of_groups_that_the_broker_assigns() -> None:
    group = wire.ConsumerGroupDescribeResponse.Group
    topics = group.Member.Assignment.TopicPartitions
    told = group.Member(
        member_id="m",
        instance_id="i",
        rack_id="r",
        member_epoch=4,
        client_id="c",
        client_host="h",
        subscribed_topic_names=["a"],
        subscribed_topic_regex="a.*",
        assignment=group.Member.Assignment(topic_partitions=[topics(topic_name="a", partitions=[1, 0])]),
        target_assignment=group.Member.Assignment(topic_partitions=[topics(topic_name="a", partitions=[0])]),
    )
    member = consumer_member(told)
    assert (member.assignment, member.target) == (parts("a", 0, 1), parts("a", 0))
    assert (member.instance_id, member.rack, member.epoch, member.pattern) == ("i", "r", 4, "a.*")


def test_members_of_share_groups() -> None:
    told = wire.ShareGroupDescribeResponse.Group.Member(
        member_id="m",
        client_id="c",
        client_host="/h",
        member_epoch=2,
        subscribed_topic_names=["a"],
        assignment=wire.share_groups.Assignment(
            topic_partitions=[wire.share_groups.TopicPartitions(topic_name="a", partitions=[0])]
        ),
    )
    member = share_member(told)
    assert (member.assignment, member.subscription, member.epoch) == (parts("a", 0), ("a",), 2)


def test_members_of_groups_of_streams() -> None:
    response = wire.StreamsGroupDescribeResponse
    tasks = wire.streams_groups.TaskIds
    assignment = wire.streams_groups.Assignment
    topology = response.Group.Topology
    group = response.Group(
        topology=topology(
            subtopologies=[
                topology.Subtopology(
                    subtopology_id="0",
                    source_topics=["in"],
                    repartition_source_topics=[wire.streams_groups.TopicInfo(name="between")],
                )
            ]
        ),
        members=[
            response.Group.Member(
                member_id="m",
                member_epoch=3,
                client_id="c",
                client_host="h",
                assignment=assignment(active_tasks=[tasks(subtopology_id="0", partitions=[1])]),
                target_assignment=assignment(active_tasks=[tasks(subtopology_id="9", partitions=[1])]),
            )
        ],
    )
    (member,) = streams_members(group)
    assert (member.subscription, member.assignment, member.target) == (
        ("in",),
        parts("between", 1) + parts("in", 1),
        (),
    )
    assert streams_members(response.Group(topology=None, members=group.members))[0].assignment == ()
