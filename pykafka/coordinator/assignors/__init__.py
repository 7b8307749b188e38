"""Ways in which the leader of a group shares out the partitions of many topics: `ConsumerCoordinator`'s `assignors`.

The package's own consumers read one topic each, and take a `GroupMembershipProtocol` instead. Both use the algorithms of
`pykafka.membershipprotocol`.
"""
