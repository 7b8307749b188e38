"""`GroupLink`: who coordinates a group, and the connection to it; what a member asks of it, whatever the group is for."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

from pykafka.coordinator.requests import leave_request
from pykafka.coordinator.state import EVENT_OF_ERROR, MOVED
from pykafka.exceptions import (
    ClientClosedError,
    KafkaException,
    NotCoordinatorForGroup,
    ProtocolClientError,
    UnknownMemberId,
    UnsupportedVersion,
    error_for,
)
from pykafka.network.channel import group_channel
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

#: How long leaving may take (ms): whoever leaves is in a hurry, and the session times out by itself.
LEAVE_TIMEOUT_MS = 5000


class GroupLink:
    """Be the part of a member that finds the broker which coordinates its group.

    :param client: a KafkaClient, or a BaseCluster
    :param config: group_id, retry_backoff_ms and what subclasses want
    """

    def __init__(self, client: Any, config: dict[str, Any]) -> None:
        self.config = config
        self._cluster: BaseCluster = getattr(client, "cluster", client)
        self._handler = self._cluster.handler
        self.group_id: str = config["group_id"]
        self.coordinator: Broker | None = None
        #: Members of one process cannot share a connection: a join may wait for long.
        self.connection_id = uuid.UUID(int=self._handler.random.getrandbits(128), version=4)
        self._closing = False
        self._refreshed_at = self._handler.now()

    def refresh_if_old(self) -> None:
        """Have metadata asked for every `metadata_max_age_ms`: new partitions are to be shared out too."""
        now = self._handler.now()
        if now - self._refreshed_at > self.config["metadata_max_age_ms"] / 1000:
            self._refreshed_at = now
            self._refresh()

    def _refresh(self) -> None:
        self._cluster.refresh(self._cluster.generation)

    def coordinator_unknown(self) -> bool:
        """Return whether the coordinator is to be looked for; one that has been found closed is forgotten."""
        broker = self.coordinator
        if broker is not None and self._cluster.brokers.get(broker.id) is not broker:
            self.coordinator_dead(f"{broker.address} has left the cluster or moved")
        return self.coordinator is None

    def coordinator_dead(self, error: Any) -> None:
        """Forget who coordinates the group.

        :param error: why, for the log
        """
        if self.coordinator is not None:
            log.info("group %s: coordinator %s is given up: %s", self.group_id, self.coordinator.address, error)
            self._drop_connection()
            self.coordinator = None

    def ensure_coordinator_known(self, timeout_ms: int | None = None) -> None:
        """Find out who coordinates the group, where that is not known.

        :param timeout_ms: how long to go on trying; by default the client's socket timeout
        :raises KafkaException: it could not be found out
        """
        if not self.coordinator_unknown():
            return
        patience = self._cluster.socket_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self._handler.now() + patience / 1000
        while True:
            left_ms = None if timeout_ms is None else max(0, round((deadline - self._handler.now()) * 1000))
            try:
                self._find_coordinator(left_ms)
                return
            except (ClientClosedError, UnsupportedVersion):
                raise
            except KafkaException as error:
                if not error.retriable or self._closing or self._handler.now() > deadline:
                    raise
                log.info("group %s: %s; asking again", self.group_id, error)
            self._pause()

    def _find_coordinator(self, timeout_ms: int | None = None) -> None:
        """Ask who coordinates the group; errors and `timeout_ms` as of `Cluster.get_group_coordinator`."""
        self.coordinator = self._cluster.get_group_coordinator(self.group_id, timeout_ms)
        log.info("group %s: coordinated by %s", self.group_id, self.coordinator.address)

    def _pause(self) -> None:
        self._handler.sleep(self.config["retry_backoff_ms"] / 1000)

    def may_try_again(self, error: KafkaException) -> bool:
        """Return whether joining again may help against an error of `join` or `sync`."""
        if self._closing or self._cluster.closed:
            return False
        if isinstance(error, ProtocolClientError):
            return error.ERROR_CODE in EVENT_OF_ERROR or error.retriable
        return self._cluster.may_pass(error)

    def _drop_connection(self) -> None:
        if self.coordinator is not None:
            self.coordinator.drop_channel(group_channel(self.connection_id))

    def _leave(self, member_id: str, timeout_ms: int) -> None:
        """Have the coordinator strike a member off, wherever that is by now; where it does not, the session times out."""
        if not member_id:
            return
        deadline = self._handler.now() + timeout_ms / 1000
        while True:
            try:
                self._leave_once(member_id, deadline)
                log.info("group %s: %s has left", self.group_id, member_id)
                return
            except KafkaException as error:
                passing = not isinstance(error, ProtocolClientError) or error.ERROR_CODE in MOVED or error.retriable
                if not passing or self._cluster.closed or self._handler.now() > deadline:
                    text = "group %s: leaving failed, so the others wait for the session's end: %s"
                    log.log(
                        logging.INFO if isinstance(error, UnknownMemberId) else logging.WARNING,
                        text,
                        self.group_id,
                        error,
                    )
                    return
                log.info("group %s: leaving: %s; trying again", self.group_id, error)
                self._drop_connection()
                self.coordinator = None
            self._pause()

    def _leave_once(self, member_id: str, deadline: float) -> None:
        if self.coordinator_unknown():
            self._find_coordinator(self._left_ms(deadline))
        coordinator = self.coordinator
        if coordinator is None:
            raise NotCoordinatorForGroup(f"group {self.group_id}: the coordinator was lost a moment ago")
        version = coordinator.api_version(wire.LeaveGroupRequest)
        request = leave_request(self.group_id, member_id, version)
        channel = group_channel(self.connection_id)
        left_ms = self._left_ms(deadline)
        response = coordinator.call(request, channel, timeout_ms=left_ms, version=version, latest=deadline)
        codes = [response.error_code, *(member.error_code for member in response.members)]
        code = next((code for code in codes if code), 0)
        if code:
            raise error_for(code, broker=coordinator.address, api="LeaveGroup")

    def _left_ms(self, deadline: float, least: int = 100) -> int:
        """Return what is left until a deadline (ms); one that has passed leaves time for one answer that is quick."""
        return max(least, int((deadline - self._handler.now()) * 1000))
