"""`Discovery`: what the reference documents of `Cluster` besides what this client itself needs."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pykafka.exceptions import KafkaException, NoBrokersAvailableError, ProtocolClientError, error_for
from pykafka.protocol import documented

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.handlers import Handler

log = logging.getLogger(__name__)

R = TypeVar("R")

#: Pause before a coordinator that loads its groups is asked for them again (s).
_LOADING_S = 0.2


class Discovery(ABC):
    """Be the part of `Cluster` that asks brokers one after another, whatever the question."""

    _handler: Handler
    _seeds: list[tuple[str, int]]
    _zookeeper_hosts: str | None
    _socket_timeout_ms: int

    @property
    @abstractmethod
    def brokers(self) -> dict[int, Broker]:
        """The known brokers by id."""

    @abstractmethod
    def _new_broker(self, id_: int, host: str, port: int) -> Broker:
        """Make a broker with the settings of this cluster."""

    def _get_metadata(self, topics: Sequence[str | bytes] | None = None) -> documented.MetadataResponse:
        """Return fresh metadata from any broker, without taking it over.

        :param topics: names; None asks for all
        :raises NoBrokersAvailableError: no broker answered
        """
        known = [(broker.host, broker.port) for broker in self.brokers.values()]
        return self._request_metadata(known or self._get_broker_connection_info(), topics)

    def _request_metadata(
        self, broker_connects: Iterable[tuple[str, int]], topics: Sequence[str | bytes] | None
    ) -> documented.MetadataResponse:
        """Return the first metadata that one of these addresses gives; errors as `_request_random_broker`."""
        return self._request_random_broker(broker_connects, lambda broker: broker.request_metadata(topics))

    def _request_random_broker(
        self, broker_connects: Iterable[tuple[str, int]], req_fn: Callable[[Broker], R | None]
    ) -> R:
        """Return the first answer that is not None, asking brokers in turn.

        :param broker_connects: (host, port) pairs
        :param req_fn: asks a broker; known brokers are given as they are, with their connections
        :raises NoBrokersAvailableError: none answered; `.ledger` has every attempt
        """
        known = {(broker.host, broker.port): broker for broker in self.brokers.values()}
        attempts: list[tuple[str, Exception]] = []
        for host, port in broker_connects:
            broker = known.get((host, int(port)))
            own = None if broker is not None else self._new_broker(-1, host, int(port))
            try:
                answer = req_fn(broker or own)  # type: ignore[arg-type]
                if answer is not None:
                    return answer
            except ProtocolClientError:
                raise
            except KafkaException as error:
                log.warning("%s:%s did not answer: %s", host, port, error)
                attempts.append((f"{host}:{port}", error))
            finally:
                if own is not None:
                    own.close()
        tried = "; ".join(f"{address}: {error}" for address, error in attempts)
        raise NoBrokersAvailableError(f"no broker answered ({tried}); check that they are up", ledger=attempts)

    def _get_broker_connection_info(self) -> list[tuple[str, int]]:
        """Return (host, port) of each broker that may be asked first: those of ZooKeeper, or else of `hosts`."""
        if self._zookeeper_hosts is not None:
            return self._get_brokers_from_zookeeper(self._zookeeper_hosts)
        return list(self._seeds)

    def _get_brokers_from_zookeeper(self, zk_connect: str) -> list[tuple[str, int]]:
        """Return (host, port) of each broker that is registered in ZooKeeper.

        :param zk_connect: "host:port,host:port/chroot"
        :raises NoBrokersAvailableError: ZooKeeper cannot be reached, or no broker is registered there
        """
        from pykafka.metadata.zookeeper import broker_addresses

        return broker_addresses(zk_connect, self._handler, self._socket_timeout_ms)

    def fetch_api_versions(self) -> dict[int, documented.ApiVersionsSpec]:
        """Return which versions of which APIs a broker takes, of any that answers: {API key: ApiVersionsSpec}.

        :raises NoBrokersAvailableError: none answered
        """
        known = [(broker.host, broker.port) for broker in self.brokers.values()]
        response = self._request_random_broker(
            known or self._get_broker_connection_info(), lambda broker: broker.fetch_api_versions()
        )
        return response.api_versions

    def get_managed_group_descriptions(self) -> dict[str, documented.DescribeGroupResponse]:
        """Return state and members of all groups of the cluster that Kafka manages (since Kafka 0.9), by name.

        :raises UnsupportedVersion: the brokers know no groups
        :raises ProtocolClientError: a broker cannot tell its groups, also after it had the socket timeout to load them
        """
        found: dict[str, documented.DescribeGroupResponse] = {}
        deadline = self._handler.now() + self._socket_timeout_ms / 1000
        for broker in list(self.brokers.values()):
            while (listed := broker.list_groups()).error:
                error = error_for(listed.error, broker=broker.address, api="ListGroups")
                if not error.retriable or self._handler.now() > deadline:
                    raise error
                self._handler.sleep(_LOADING_S)
            if listed.groups:
                found.update(broker.describe_groups(list(listed.groups)).groups)
        return found
