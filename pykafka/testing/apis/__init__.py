"""The answers of fake brokers: a module for each subject, which registers its APIs in `pykafka.testing.call.APIS`."""

from pykafka.testing.apis import (  # noqa: F401  (they register)
    acls,
    api_versions,
    cluster,
    configs,
    consumer_groups,
    coordinators,
    fetch,
    groups,
    leaders,
    list_offsets,
    metadata,
    offsets,
    produce,
    quotas,
    sasl,
    share_fetch,
    share_groups,
    telemetry,
    topics,
    transactions,
)
