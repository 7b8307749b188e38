"""What fake brokers answer: a module for each subject, which registers its APIs in `pykafka.testing.call.APIS`."""

from pykafka.testing.apis import (
    api_versions,
    consumer_groups,
    coordinators,
    fetch,
    groups,
    leader_epochs,
    list_offsets,
    metadata,
    offsets,
    produce,
)

__all__ = [
    "api_versions",
    "consumer_groups",
    "coordinators",
    "fetch",
    "groups",
    "leader_epochs",
    "list_offsets",
    "metadata",
    "offsets",
    "produce",
]
