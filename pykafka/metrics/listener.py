"""`ClientListener`: what a client reports of its work, per request and per batch, never per message. The seam of this room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykafka.exceptions import KafkaException
    from pykafka.metrics.metric import Metric

#: Parts of a client, as `ClientListener.part` names them.
CONNECTION, PRODUCER, CONSUMER, SHARE = "connection", "producer", "consumer", "share-consumer"

# Kinds of events: states that change, and steps that took a time.
CONNECTED, DISCONNECTED, UNREACHABLE = "connected", "disconnected", "unreachable"
AUTHENTICATED, REAUTHENTICATED = "authenticated", "reauthenticated"
REFUSED, NOT_RENEWED = "refused", "not-renewed"
THROTTLED, METADATA, FAILED, RETRY = "throttled", "metadata", "failed", "retry"
COORDINATOR, JOINED, SYNCED, REBALANCED, REBALANCE_FAILED = (
    "coordinator",
    "joined",
    "synced",
    "rebalanced",
    "rebalance-failed",
)
ASSIGNED, REVOKED, LOST, HEARTBEAT, COMMITTED, POSITION = (
    "assigned",
    "revoked",
    "lost",
    "heartbeat",
    "committed",
    "position",
)
POLLED, WAITED, ACKNOWLEDGED = "polled", "waited", "acknowledged"
TRANSACTION, STALLED, HELD, CALLBACK, CLOSED = "transaction", "stalled", "held", "callback", "closed"
#: A partition that was STALLED is not any more. Both kinds are followed by the reason: "stalled paused", "moves paused".
MOVES = "moves"
#: The hub or loop that was HELD turns again; the time is that of the whole hold.
RELEASED = "released"
#: The member has left its group, or the coordinator has put it out.
LEFT = "left"
#: Calls of a producer that have waited: for its messages to be acknowledged, for metadata, and for room.
FLUSH, METADATA_WAIT, BUFFER_WAIT = "flush", "metadata-wait", "buffer-wait"
#: Calls of a consumer that have waited, whatever their outcome: `commit()`, and `committed()`.
COMMIT_SYNC, COMMITTED_READ = "commit-sync", "committed-read"
#: The steps of transactions that are measured: `kind_of(TRANSACTION, step)`.
TRANSACTION_STEPS = ("init", "begin", "send-offsets", "commit", "abort")
#: How many things a detail names at most.
NAMED_MAX = 5


def kind_of(kind: str, about: str) -> str:
    """Return the kind of those events that are counted by API or step: THROTTLED by "Fetch", TRANSACTION by "commit"."""
    return f"{kind} {about}"


class Measured(Protocol):
    """A producer or a consumer, as its client's metrics know it."""

    def read_metrics(self) -> list[Metric]: ...  # of now


class ClientListener:
    """The listener that a client calls as it works. Each method does nothing here; a subclass takes what it wants.

    Calls come from any worker of the client, and must not wait. The answers of a connection are reported one at a time.
    """

    def part(
        self,
        kind: str,
        about: tuple[Any, ...],
        source: Measured | None = None,
        before: ClientListener | None = None,
    ) -> ClientListener:
        """Return the listener of a part of the client; by default this one.

        :param kind: CONNECTION, PRODUCER, CONSUMER or SHARE
        :param about: (node id, channel) of a connection; (client id, topic) of a producer; (client id, group) of a consumer
        :param source: the producer or consumer, to be held weakly
        :param before: of the part in whose place this one comes: it goes on counting
        """
        return self

    def after_fork(self) -> None:
        """Forget what the parent has done, in a forked child, before anything else is called there."""

    def on_request(self, api: type[Any], sent: int, now: float) -> None:
        """Hear of a request that was sent; its answer, if one is due, may come first.

        :param api: the class of the request
        :param sent: its size (bytes)
        :param now: of the handler's clock (s)
        """

    def on_answer(self, api: type[Any], sent: int, received: int, seconds: float, now: float) -> None:
        """Hear of a request that was answered, or that needs no answer.

        :param api: the class of the request
        :param sent: size of the request (bytes)
        :param received: size of the answer (bytes); 0: none was due
        :param seconds: from the request to the answer
        :param now: of the handler's clock (s)
        """

    def on_send(self, batches: Sequence[Any], now: float) -> None:
        """Hear of batches that were sent in one request, each a `ProducerBatch` of the producer room.

        :param now: of the handler's clock (s)
        """

    def on_batch(self, batch: Any, error: KafkaException | None, now: float) -> None:
        """Hear of a batch that was acknowledged, or has failed for good; parameters as of `on_send`."""

    def on_retry(self, batch: Any, error: KafkaException) -> None:
        """Hear of a batch that will be sent again."""

    def on_records(self, topic: str, partition: int, records: int, nbytes: int, now: float) -> None:
        """Hear of records of one partition that were fetched and buffered.

        :param nbytes: unpacked (bytes)
        :param now: of the handler's clock (s)
        """

    def on_event(self, kind: str, subject: str, seconds: float = 0.0, detail: object = "") -> None:
        """Hear of a step or a change of state.

        :param kind: a constant of this module
        :param subject: what it is about: "broker 1 main", "orders/3", "group billing"
        :param seconds: how long it took
        :param detail: an error, or what else there is to say; no payload, no secret
        """

    def on_fatal(self, error: BaseException) -> None:
        """Hear of an error that ends a worker, a producer or the client, before the application gets it; the client's alone."""
