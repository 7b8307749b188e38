"""The report of a client: its brokers, and all that was made from it; with `probe`, each broker is asked."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException, WorkerNotStartedError
from pykafka.health.explanation import reason_of_error
from pykafka.health.report import (
    BrokerHealth,
    ClientHealth,
    ConsumerHealth,
    Problem,
    ProducerHealth,
    ShareConsumerHealth,
)
from pykafka.health.watch import held_by
from pykafka.metadata.client_metrics import FORGOTTEN_S
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node

#: So many brokers are asked at a time.
ASKED_MOST = 32


def client_health(cluster: BaseCluster, probe: bool = False, timeout: float = 5.0) -> ClientHealth:
    """Return the report of a client.

    :param cluster: of the client
    :param probe: ask each broker whether it answers, all at the same time
    :param timeout: how long they may take together (s)
    """
    asked = _ask_each(cluster, timeout) if probe and not cluster.ended and not cluster.handler.has_ended else {}
    brokers = tuple(_broker(cluster, node, asked) for _, node in sorted(cluster.brokers.items()))
    reports = [member._view().report() for member in cluster.members if getattr(member, "_is_open", False)]
    problems = _own(cluster, brokers)
    for report in reports:
        problems += report.problems
    return ClientHealth(
        tuple(problems),
        brokers,
        consumers=tuple(one for one in reports if isinstance(one, ConsumerHealth)),
        producers=tuple(one for one in reports if isinstance(one, ProducerHealth)),
        share_consumers=tuple(one for one in reports if isinstance(one, ShareConsumerHealth)),
    )


def _own(cluster: BaseCluster, brokers: tuple[BrokerHealth, ...]) -> list[Problem]:
    """Return what is wrong with the client itself."""
    if cluster.ended or cluster.closed:
        return [Problem("closed", "the client is closed", "make another", None, True)]
    if cluster.handler.has_ended:
        text = "the event loop of the client is closed, or is the parent's of this process"
        return [Problem("closed", text, "make a client in the loop that runs", None, True)]
    found = []
    held = held_by(cluster.handler)
    if held is not None:
        where = "hub" if cluster.handler.name != "asyncio" else "event loop"
        text = f"a call holds the {where}: {held.stack}"
        found.append(Problem("held", text, "have it wait cooperatively, or run it in a thread", held.seconds, True))
    for broker in brokers:
        if broker.reachable is False:
            text = f"broker {broker.id} ({broker.address}) cannot be reached: {broker.error}"
            remedy = "see that it is up; the client connects again by itself"
            found.append(Problem("broker-unreachable", text, remedy, broker.failing_s))
    if not any(broker.reachable for broker in brokers) and (error := cluster.metadata_error) is not None:
        reason = reason_of_error(error)
        found.append(Problem(reason.why.value, f"no broker gives metadata: {reason.text}", reason.remedy))
    return found


def _broker(cluster: BaseCluster, node: Node, asked: dict[int, KafkaException | None]) -> BrokerHealth:
    since, error = node.connected_since, node.connect_error
    if error is not None and cluster.handler.now() - node.failed_at > FORGOTTEN_S:
        error = None
    reachable: bool | None = since is not None
    if node.id in asked:
        error = asked[node.id]
        reachable = error is None
    elif since is None and error is None:
        reachable = None
    now, failing_since = cluster.handler.now(), node.failing_since if error is not None else None
    return BrokerHealth(
        node.id,
        node.address,
        reachable,
        connected_s=None if since is None else max(now - since, 0.0),
        error=None if error is None else f"{type(error).__name__}: {error}",
        failing_s=None if failing_since is None else max(now - failing_since, 0.0),
    )


def _ask_each(cluster: BaseCluster, timeout: float) -> dict[int, KafkaException | None]:
    """Return what each broker has answered in time: None, or an error."""
    handler, left = cluster.handler, deque(node for _, node in sorted(cluster.brokers.items()))
    count = len(left)
    rounds = -(-count // ASKED_MOST) or 1  # brokers that hang must not take the time of those behind them
    late = KafkaException(f"it has not answered within {timeout / rounds:g} s")
    found: dict[int, KafkaException | None] = dict.fromkeys((node.id for node in left), late)
    deadline = handler.now() + timeout

    def ask() -> None:
        while left:
            try:
                node = left.popleft()
            except IndexError:  # another worker has taken it
                return
            ms = max(1, round(min(deadline - handler.now(), timeout / rounds) * 1000))
            try:
                node.call(wire.ApiVersionsRequest(), timeout_ms=ms, version=0)
                found[node.id] = None
            except KafkaException as error:
                found[node.id] = error
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what keeps the client from the broker
                found[node.id] = KafkaException(f"{type(error).__name__}: {error}")

    workers = []
    try:
        for _ in range(min(count, ASKED_MOST)):
            workers.append(handler.spawn(ask, name="pykafka.probe"))
    except WorkerNotStartedError:  # those that there are ask the others, too
        if not workers:
            ask()
    for worker in workers:
        worker.join(max(deadline - handler.now(), 0.0))
    return dict(found)  # a worker that is late changes nothing any more


def healths_of(clients: Any) -> list[ClientHealth]:
    """Return the reports of a client or of several, also of clients for asyncio: none of them sends a request."""
    several = clients if isinstance(clients, (list, tuple, set, frozenset)) else [clients]
    found = []
    for one in several:
        client: Any = getattr(one, "_inner", one)
        found.append(client_health(client.cluster))
    return found
