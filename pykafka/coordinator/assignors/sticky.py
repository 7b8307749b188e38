"""`StickyPartitionAssignor` and `CooperativeStickyAssignor`: as even as can be, and members keep what they have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pykafka.groups.assignors.abstract import AbstractPartitionAssignor, Racks, by_topic
from pykafka.groups.assignors.balancing import Claim, balanced
from pykafka.groups.assignors.racks import nearness

from pykafka.common import TopicPartition
from pykafka.compat import messages
from pykafka.exceptions import CorruptResponseError
from pykafka.utils import get_string
from pykafka.utils.struct_helpers import unpack_from

_NOTHING = Claim(frozenset(), -1)


class StickyPartitionAssignor(AbstractPartitionAssignor):
    """The assignor that moves as few partitions as an even share allows (KIP-54); members tell it what they had (KIP-341).

    Each rebalance revokes everything all the same; `CooperativeStickyAssignor` does not.
    """

    name = "sticky"

    @classmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, messages.ConsumerGroupProtocolMetadata]
    ) -> dict[str, messages.MemberAssignment]:
        """Return each member's share; parameters as of `AbstractPartitionAssignor.assign`."""
        return cls.assign_near(partitions, members, {})

    @classmethod
    def assign_near(
        cls,
        partitions: Mapping[str, Collection[int]],
        members: Mapping[str, messages.ConsumerGroupProtocolMetadata],
        racks: Racks,
    ) -> dict[str, messages.MemberAssignment]:
        """Return each member's share; parameters as of `AbstractPartitionAssignor.assign_near`."""
        wants = {member: {get_string(topic) for topic in said.topic_names} for member, said in members.items()}
        if not wants:
            return {}
        claims = {member: cls.claim(said) for member, said in members.items()}
        shares = cls.settled(balanced(partitions, wants, claims, nearness(members, racks)), claims)
        return {member: messages.MemberAssignment(by_topic(share), 0) for member, share in shares.items()}

    @classmethod
    def settled(
        cls, shares: dict[str, set[TopicPartition]], claims: Mapping[str, Claim]
    ) -> dict[str, set[TopicPartition]]:
        """Return what of the shares members may have now: all of it, as all have revoked theirs.

        :param shares: {member: its share}
        :param claims: {member: what it says that it has}
        """
        return shares

    @classmethod
    def claim(cls, said: messages.ConsumerGroupProtocolMetadata) -> Claim:
        """Return what a member says that it has: by its user data, as Kafka's Java client writes it.

        Data in another form is of no use, and counts as none.

        :param said: the metadata that it sent
        """
        data = said.user_data or b""
        for end in (b"", (-1).to_bytes(4, "big", signed=True)):  # before KIP-341 there was no generation
            try:
                pairs, generation = unpack_from("[S [i]] i", data + end)
                keys = frozenset(TopicPartition(get_string(topic), id_) for topic, ids in pairs for id_ in ids)
                return Claim(keys, generation)
            except (CorruptResponseError, TypeError, ValueError):
                continue
        return _NOTHING

    @classmethod
    def user_data(cls, share: Iterable[TopicPartition], generation: int) -> bytes | None:
        """Return a member's last share and its generation as bytes; parameters as of `AbstractPartitionAssignor.user_data`."""
        if generation < 0:
            return None
        pairs = by_topic(share)
        # as in the metadata itself: what follows the version
        whole = messages.MemberAssignment(pairs, 0).get_bytes()
        return bytes(whole[2:]) + generation.to_bytes(4, "big", signed=True)


class CooperativeStickyAssignor(StickyPartitionAssignor):
    """The assignor of the same shares, in two steps: what has an owner is given to another member after that has revoked it.

    Members go on with what they keep through a rebalance (KIP-429); what they have stands in their metadata.
    """

    name = "cooperative-sticky"
    cooperative = True

    @classmethod
    def settled(
        cls, shares: dict[str, set[TopicPartition]], claims: Mapping[str, Claim]
    ) -> dict[str, set[TopicPartition]]:
        """Return what of the shares members may have now: nothing that another member says that it has.

        :param shares: {member: its share}
        :param claims: {member: what it says that it has}
        """
        claimants: dict[TopicPartition, list[str]] = {}
        for member in sorted(claims):
            for key in claims[member].keys:
                claimants.setdefault(key, []).append(member)

        def may_have(member: str, key: TopicPartition) -> bool:
            others = [claims[one].generation for one in claimants.get(key, ()) if one != member]
            if not others:
                return True
            mine = claims.get(member, _NOTHING)
            return key in mine.keys and mine.generation > max(others)

        return {member: {key for key in share if may_have(member, key)} for member, share in shares.items()}

    @classmethod
    def claim(cls, said: messages.ConsumerGroupProtocolMetadata) -> Claim:
        """Return what a member says that it has: by its owned partitions, and their generation.

        :param said: the metadata that it sent; before version 2 its user data has the generation
        """
        keys = frozenset(TopicPartition(topic, id_) for topic, ids in said.owned_partitions for id_ in ids)
        generation, data = said.generation_id, said.user_data or b""
        if generation < 0 and len(data) == 4:
            generation = int.from_bytes(data, "big", signed=True)
        return Claim(keys, generation)

    @classmethod
    def user_data(cls, share: Iterable[TopicPartition], generation: int) -> bytes | None:
        """Return the generation as bytes, for leaders that read no version 2 of the metadata; parameters as of `sticky`."""
        return generation.to_bytes(4, "big", signed=True)
