"""The answers of fake brokers: a module for each subject, which registers its APIs in `pykafka.testing.call.APIS`."""

from pykafka.testing.apis import (
    api_versions,
    cluster,
    configs,
    consumer_groups,
    coordinators,
    fetch,
    groups,
    leader_epochs,
    leaders,
    list_offsets,
    metadata,
    offsets,
    produce,
    topic_pages,
    topics,
    transactions,
)

__all__ = [
    "api_versions",
    "cluster",
    "configs",
    "consumer_groups",
    "coordinators",
    "fetch",
    "groups",
    "leader_epochs",
    "leaders",
    "list_offsets",
    "metadata",
    "offsets",
    "produce",
    "topic_pages",
    "topics",
    "transactions",
]
