"""kafka-python's coordinators, `BaseCoordinator` and `ConsumerCoordinator`: API for programs with their own consumer.

They stand on `pykafka.groups.classic.coordinator.AbstractCoordinator`. No consumer of this package uses them:
`ManagedBalancedConsumer` has a `TopicMember`.
"""
