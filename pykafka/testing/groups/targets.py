"""The server-side assignors of brokers: `uniform` and `range`, by the client's own ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from pykafka.common import TopicPartition
from pykafka.groups.assignors.range_and_roundrobin import RangePartitionAssignor
from pykafka.groups.assignors.sticky import Claim, balanced
from pykafka.protocol.consumer_protocol import ConsumerProtocolSubscription
from pykafka.testing.groups.consumer_member import ConsumerMember, Key
from pykafka.testing.topics import Topic

#: The first one is the default.
ASSIGNORS = ("uniform", "range")


def preferred_assignor(members: Iterable[ConsumerMember]) -> str:
    """Return the assignor that most members ask for."""
    votes = Counter(member.assignor for member in members if member.assignor is not None)
    return votes.most_common(1)[0][0] if votes else ASSIGNORS[0]


def target_assignment(
    members: Mapping[str, ConsumerMember],
    subscribed: Mapping[str, Collection[str]],
    topics: Mapping[str, Topic],
    before: Mapping[str, Collection[Key]],
) -> dict[str, set[Key]]:
    """Return what each member shall have.

    :param members: of the group
    :param subscribed: the topics of each member, by its id; they exist
    :param topics: of the cluster, by name
    :param before: the last target assignment; `uniform` moves as little as it can
    """
    names = {name for wanted in subscribed.values() for name in wanted}
    partitions = {name: range(len(topics[name].partitions)) for name in names}
    if preferred_assignor(members.values()) == "range":
        shares = _by_range(members, subscribed, partitions)
    else:
        by_id = {topics[name].id: name for name in names}
        claims = {
            member: {
                TopicPartition(by_id[id_], index)
                for id_, index in before.get(member, ())
                if id_ in by_id and by_id[id_] in wanted
            }
            for member, wanted in subscribed.items()
        }
        shares = _uniform(subscribed, partitions, claims)
    return {member: {(topics[key.topic].id, key.partition) for key in shares.get(member, ())} for member in members}


def _uniform(
    subscribed: Mapping[str, Collection[str]],
    partitions: Mapping[str, Collection[int]],
    before: Mapping[str, Collection[TopicPartition]],
) -> dict[str, set[TopicPartition]]:
    if len({frozenset(names) for names in subscribed.values()}) > 1:
        claims = {member: Claim(frozenset(keys), 0) for member, keys in before.items()}
        return {member: set(keys) for member, keys in balanced(partitions, subscribed, claims).items()}
    # As brokers do if all members read the same topics: each keeps its first ones, and one after another is filled up.
    free = [TopicPartition(topic, index) for topic in sorted(partitions) for index in partitions[topic]]
    quota, longer = divmod(len(free), max(len(subscribed), 1))
    shares: dict[str, set[TopicPartition]] = {}
    for member in subscribed:
        is_longer = longer > 0 and len(before[member]) > quota
        longer -= is_longer
        shares[member] = set(sorted(before[member])[: quota + is_longer])
    taken = {key for share in shares.values() for key in share}
    free = [key for key in free if key not in taken]
    for share in shares.values():
        is_longer = longer > 0 and len(share) <= quota
        longer -= is_longer
        missing = max(quota + is_longer - len(share), 0)
        share.update(free[:missing])
        del free[:missing]
    return shares


def _by_range(
    members: Mapping[str, ConsumerMember],
    subscribed: Mapping[str, Collection[str]],
    partitions: Mapping[str, Collection[int]],
) -> dict[str, set[TopicPartition]]:
    subscriptions = {}
    for member, names in subscribed.items():
        subscriptions[member] = subscription = ConsumerProtocolSubscription(0, sorted(names))
        subscription.group_instance_id = members[member].instance_id
    return {
        member: {TopicPartition(topic, index) for topic, ids in made.partition_assignment for index in ids}
        for member, made in RangePartitionAssignor.assign(partitions, subscriptions).items()
    }
