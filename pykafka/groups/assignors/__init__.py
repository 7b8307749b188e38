"""Assignors: how the leader of a group assigns partitions, for `ClassicMembership` and `ConsumerCoordinator`.

Consumers of one topic take a `GroupMembershipProtocol` instead. Both use the algorithms of `range_and_roundrobin`.
"""
