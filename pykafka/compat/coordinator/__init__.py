"""`ConsumerCoordinator` and its parts: documented API for programs that bring their own consumer.

No consumer of this package uses it: `ManagedBalancedConsumer` has a `TopicMember` and the consumer engine's offsets. What both
need stands in the room above (membership, heartbeats, topics), in `pykafka.membershipprotocol` (the algorithms of sharing
out) and in `pykafka.metadata.group_offsets` (the messages about offsets).
"""
