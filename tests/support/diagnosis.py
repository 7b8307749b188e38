"""Facts for the report of a failed test: stacks of its clients, logs of the brokers, load of the machine."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pykafka.consumer.fetcher import Fetcher
from pykafka.metadata import lifecycle

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node
    from tests.brokers import KafkaCluster

#: What a broker's log has of interest: trouble, a broker that its controller holds for dead, and messages that went.
TELLING = re.compile(r" (WARN|ERROR|FATAL) |[Ff]enc(ed|ing)|session .*(expired|timed out)|Deleting segment")
LINES = 40
LOG_TAIL = 2_000_000


def describe(brokers: Iterable[KafkaCluster] = ()) -> str:
    """Return all facts as text.

    :param brokers: whose logs to look into
    """
    return "\n".join([time.strftime("at %H:%M:%S"), *_pressure(), *_clients(), *_logs(brokers)])


def _pressure() -> Iterator[str]:
    """Return the part of the time in which processes waited for the machine, as Linux counts it."""
    for resource in ("cpu", "io", "memory"):
        try:
            yield f"{resource}: {Path('/proc/pressure', resource).read_text().splitlines()[0]}"
        except (OSError, IndexError):
            yield f"{resource}: the system does not say"


def _clients() -> Iterator[str]:
    for cluster in list(lifecycle._open_clusters):
        if not cluster.closed:
            yield from _client(cluster)


def _client(cluster: BaseCluster) -> Iterator[str]:
    age = cluster.handler.now() - cluster.refresh_schedule.updated_at
    yield f"{cluster!r}, handler {cluster.handler.name}, metadata {age:.1f} s old"
    for broker in cluster._known_brokers.every():
        yield from (f"  {line}" for line in _broker(broker, cluster.handler.now()))


def _broker(broker: Node, now: float) -> Iterator[str]:
    for name, channel in broker._channels:
        requests = channel.requests
        yield f"broker {broker.id}, channel {name}: {requests!r}, last error {channel._last_error}"
        for request in [] if requests is None else requests.shared.requests.all():
            yield f"  unanswered, {request.deadline - now:.1f} s before its deadline: {request.request!r:.300}"
    for worker in list(broker._shared.values()):
        if isinstance(worker, Fetcher):
            yield f"broker {broker.id}, fetcher: {worker._worker!r}, {worker._completed!r}"
            for owned in [member.owned for member in islice(worker._fetchable.members.values(), LINES)]:
                yield (
                    f"  {owned.key.topic} {owned.partition_id}: position {owned.position}, to fetch from "
                    f"{owned.fetch_offset}, {owned.messages} buffered, buffer full {owned.buffer_full}, "
                    f"borrowed {bool(owned.borrow)}, "
                    f"in trouble since {owned.trouble_since}; {owned.buffers.nbytes} bytes of the consumer buffered"
                )


def _logs(brokers: Iterable[KafkaCluster]) -> Iterator[str]:
    for cluster in brokers:
        for path in sorted(cluster.directory.glob("*.log")):
            with path.open("rb") as file:
                file.seek(max(path.stat().st_size - LOG_TAIL, 0))
                lines = file.read().decode(errors="replace").splitlines()
            telling = [line[:300] for line in lines if TELLING.search(line)]
            yield f"{cluster.version}, {path.name}: its last {min(len(telling), LINES)} telling lines, and its last one"
            yield from (f"  {line}" for line in [*telling[-LINES:], *lines[-1:]])
