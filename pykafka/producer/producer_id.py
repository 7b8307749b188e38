"""`ProducerIds`: the producer id under which an idempotent producer numbers its batches."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pykafka.exceptions import (
    CorruptResponseError,
    KafkaException,
    ProtocolClientError,
    ResponseTimeoutError,
    UnsupportedVersion,
    error_for,
)
from pykafka.metrics.listener import FAILED
from pykafka.network.authentication import is_answer
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node

log = logging.getLogger(__name__)


class ProducerIds:
    """Ask for a producer id when the first batch needs one, and for another when brokers refuse it.

    State: `_found` and `denied` change under `_lock`, which is held while a broker is asked, so that several senders
    cause one request.

    :param cluster: any of whose brokers gives ids (KIP-98)
    :param wanted: whether to produce by numbers; None if that is possible
    """

    def __init__(self, cluster: BaseCluster, wanted: bool | None) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._lock = cluster.handler.Lock()
        self._found: tuple[int, int] | None = None
        #: Whether batches get no numbers: they are not wanted, or the cluster gives no id.
        self.denied = wanted is False

    @property
    def found(self) -> tuple[int, int] | None:
        """The producer id and its epoch; None before the first batch needs them."""
        return self._found

    def must_ask(self, spent_id: int) -> bool:
        """Return whether `get` waits for the answer of a broker, as another worker may do now."""
        return not self.denied and (self._found is None or self._found[0] == spent_id or self._lock.locked())

    def is_known_to(self, broker: Node) -> bool:
        """Return whether `known_to` returns True, or need not ask the broker."""
        found = broker.versions.found
        return self.denied or (found is not None and wire.InitProducerIdRequest.api_key in found)

    def known_to(self, broker: Node, timeout_ms: int | None = None) -> bool:
        """Return whether batches for this broker are to have numbers.

        :param timeout_ms: for asking the broker, if it has to be asked; None: `socket_timeout_ms`
        :raises UnsupportedVersion: they must have, and it is older than Kafka 0.11
        :raises SocketDisconnectedError: it could not be asked
        :raises ResponseTimeoutError: it has not answered by then
        """
        if self.denied:
            return False
        if broker.has(wire.InitProducerIdRequest, timeout_ms):
            return True
        if self._wanted:
            raise UnsupportedVersion(
                "the broker is older than Kafka 0.11 and knows no idempotent producer; without enable_idempotence=True "
                "it is produced to as well as it allows",
                broker=broker.address,
                api="InitProducerId",
            )
        return False

    def get(self, spent_id: int, broker: Node | None = None) -> tuple[int, int] | None:
        """Return a producer id and its epoch; None if the cluster gives none, and numbers were not demanded.

        :param spent_id: one that is of no use any more
        :param broker: one that gives ids: others may be too old; by default any
        :raises ProtocolClientError: numbers were demanded, and the cluster refuses an id; or it may give one later
        :raises NoBrokersAvailableError: no broker could be asked
        """
        patience = self._cluster.socket_timeout_ms / 1000
        if not self._lock.acquire(timeout=patience):
            raise ResponseTimeoutError("no producer id was given in time", api="InitProducerId")
        try:
            if self.denied:
                return None
            if self._found is None or self._found[0] == spent_id:
                self._found = self._ask(broker)
            return self._found
        finally:
            self._lock.release()

    def _ask(self, broker: Node | None) -> tuple[int, int] | None:
        # null transactional id: the timeout is not looked at
        request = wire.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        try:
            answer = self._cluster.call(request) if broker is None else broker.call(request)
            if answer.error_code:
                raise error_for(answer.error_code, api="InitProducerId")
        except KafkaException as error:
            if self._cluster.listener is not None:
                self._cluster.listener.on_event(FAILED, "producer id", 0.0, error)
            if not isinstance(error, ProtocolClientError) or error.retriable or self._wanted or not is_answer(error):
                raise
            self.denied = True
            log.warning("producing without idempotence, as the cluster gives no producer id: %s", error)
            return None
        if answer.producer_id < 0 or answer.producer_epoch < 0:  # brokers take such a batch for one without numbers
            raise CorruptResponseError(
                f"the cluster gives producer id {answer.producer_id} in epoch {answer.producer_epoch}, which none has",
                api="InitProducerId",
            )
        return answer.producer_id, answer.producer_epoch
