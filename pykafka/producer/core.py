"""`ProducerCore`: what the parts of a producer share: its options, lock, open batches, identity and completion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Protocol

from pykafka.exceptions import ProducerStoppedException
from pykafka.handlers.exit_calls import warn_of_loss
from pykafka.metrics.listener import PRODUCER
from pykafka.producer.accumulator import Owner, RecordAccumulator
from pykafka.producer.batch import DeliveryWait, ProducerBatch
from pykafka.producer.buffer_pool import BufferPool
from pykafka.producer.completion import Completion
from pykafka.producer.message_formats import MessageFormats
from pykafka.producer.producer_id import ProducerIds
from pykafka.producer.retry_policy import RetryPolicy
from pykafka.producer.topic_ids import TopicIds
from pykafka.utils import get_string

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import TopicView
    from pykafka.metrics.listener import ClientListener
    from pykafka.metrics.metric import Metric
    from pykafka.network.node import Node
    from pykafka.producer.accumulator import PartitionQueue
    from pykafka.producer.in_flight_window import InFlightWindow
    from pykafka.producer.options import ProducerOptions


class Transaction(Protocol):
    """The transactions of a producer, as its senders see them; `pykafka.transactions.transactions.Transactions` has them."""

    transactional_id: str

    @property
    def produce_ceiling(self) -> int: ...  # the highest version of Produce that its batches may go by
    def make_window(self) -> InFlightWindow: ...  # for a partition
    def must_add(self, batches: Sequence[ProducerBatch]) -> bool: ...  # whether `number` asks the coordinator
    def number(
        self, batches: Sequence[ProducerBatch], queue_of: Callable[[ProducerBatch], PartitionQueue]
    ) -> None: ...  # raises what keeps them from being sent


class FallibleTransaction(Transaction, Protocol):
    """A transaction that must be aborted once a batch has failed."""

    def failed(self, error: KafkaException) -> None: ...


class ProducerCore(ABC):
    """Own what `Producer`, its senders and its routing work on.

    State: `accumulator`, `identity` and `completion` are of one process, and made again after a fork; `flushing`, and what they
    hold, changes under `lock`.

    :param cluster: to which to produce
    :param topic: to which to produce; None: any
    :param options: checked
    :param make_sender: makes the sender of a leader
    """

    #: How deliveries wait for their batches; None if messages are no deliveries.
    delivery_wait: DeliveryWait | None = None

    def __init__(
        self,
        cluster: BaseCluster,
        topic: TopicView | None,
        options: ProducerOptions,
        make_sender: Callable[[Node], Owner],
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        #: The producer: while messages wait, it has to live for the client to close it.
        self.producer: object = None
        #: The transactions of a transactional producer; None for any other.
        self.transaction: FallibleTransaction | None = None
        #: As logs and errors name it.
        self.name = "any topic" if topic is None else get_string(topic.name)
        #: The topic of errors that are about the producer as a whole.
        self.topic_name = None if topic is None else self.name
        self.handler = cluster.handler
        self.options = options
        self.make_sender = make_sender
        #: Hears of batches; None: nobody listens.
        self.listener: ClientListener | None = None
        if cluster.listener is not None:
            self.listener = cluster.listener.part(PRODUCER, (cluster.client_id, self.name), self)
        self.made_at_ms = cluster.handler.time_ms()
        #: How many messages were given up as the producer was stopped.
        self.undelivered = 0
        self.retry_policy = RetryPolicy(self.handler, options)
        self.topic_ids = TopicIds(cluster, options.on_topic_recreated == "fail")
        self.message_formats = MessageFormats(cluster, options.enable_idempotence is True)
        #: The clock of records; None: that of the system.
        self.clock = None if self.handler.system_clock else self.handler.time_ms
        self.worker_exception: BaseException | None = None
        #: The names of the headers into which traces are written.
        self.trace_headers: Container[str] = ()
        self._begin()

    def _begin(self) -> None:
        """Make what belongs to one process."""
        self.lock = self.handler.Lock()
        self.progress = self.handler.Event()
        self.buffer_pool = BufferPool(self.handler, self.options.memory_limit, self.cluster.memory)
        self.accumulator = RecordAccumulator(self.handler, self.options.batch_full, self.buffer_pool)
        self.completion = Completion(
            self.handler,
            self.name,
            self.options,
            self.lock,
            self.accumulator,
            self.progress,
            self.cluster.limiter,
            self.topic is None,
            self.listener,
        )
        self.producer_ids = ProducerIds(self.cluster, self.options.enable_idempotence)
        #: Whether the next batch looks whether this process can deliver it at its end.
        self.looks_ahead = not self.options.sync
        #: How many callers wait in `flush()` and `stop()`: nothing lingers meanwhile.
        self.flushing = 0

    @abstractmethod
    def read_metrics(self) -> list[Metric]:
        """Return the metrics of now."""

    @abstractmethod
    def set_up(self) -> None:
        """Give each leader a sender, and each partition's queue to the sender of its leader."""

    def look_ahead(self) -> None:
        """Warn if this process may end before it has delivered the first batch."""
        self.looks_ahead = False
        warn_of_loss()

    def worker_failed(self, error: BaseException) -> None:
        """Keep the error that ended a sender: `produce()` raises it."""
        if self.cluster.listener is not None:
            self.cluster.listener.on_fatal(error)
        self.worker_exception = error
        self.progress.set()

    def raise_worker_exception(self) -> None:
        """Raise the error that ended a sender, if one did."""
        error = self.worker_exception
        if error is None:
            return
        if isinstance(error, (Exception, KeyboardInterrupt, SystemExit)):
            raise error
        # Such as a cancellation: it was meant for that worker, and here it would end the caller.
        raise ProducerStoppedException(
            f"a sender of this producer was ended from outside ({type(error).__name__}), as at the end of its event loop; "
            "make another producer"
        ) from error
