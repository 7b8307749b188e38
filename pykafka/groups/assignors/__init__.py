"""Ways in which the leader of a group shares out the partitions of many topics: for `Subscriber` and `ConsumerCoordinator`.

Consumers of one topic take a `GroupMembershipProtocol` instead. Both use the algorithms of `range_and_roundrobin`.
"""
