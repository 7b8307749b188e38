"""The check of what `post_rebalance_callback` returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException

if TYPE_CHECKING:
    from pykafka.compat.simple_consumer import SimpleConsumer
    from pykafka.consumer.positions import Position
    from pykafka.metadata.partition import Partition


def wanted_positions(consumer: SimpleConsumer, returned: Any) -> list[tuple[Partition, Position]]:
    """Return the positions that a callback wants, as `reset_offsets()` takes them.

    :param consumer: the internal consumer of the new share
    :param returned: what the callback has returned: {partition id: offset}
    :raises TypeError: it is not a mapping
    :raises KafkaException: it names partitions that are not in the share
    """
    if not isinstance(returned, Mapping):
        raise TypeError(f"post_rebalance_callback must return {{partition id: offset}} or None, not {returned!r}")
    partitions = consumer.partitions
    strangers = [id_ for id_ in returned if id_ not in partitions]
    if strangers:
        raise KafkaException(
            f"post_rebalance_callback names partitions {strangers}, which are not in the new share: {sorted(partitions)}",
            topic=consumer.topic.name,
        )
    return [(partitions[id_], offset) for id_, offset in returned.items()]
