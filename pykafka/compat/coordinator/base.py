"""`BaseCoordinator`: `AbstractCoordinator` with the defaults, calls and measurements of kafka-python."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

from pykafka.compat.coordinator.metrics import GroupCoordinatorMetrics, Metrics
from pykafka.exceptions import ResponseTimeoutError
from pykafka.groups.classic.coordinator import AbstractCoordinator
from pykafka.groups.classic.state import State
from pykafka.protocol import wire


class BaseCoordinator(AbstractCoordinator):
    """One member of a group of any kind; a program overrides the abstract methods, and calls `ensure_active_group`.

    :param client: a KafkaClient, or a Cluster
    :param metrics: the receiver of measurements; None for none
    :param configs: those of `DEFAULT_CONFIG`; others are ignored
    :raises ValueError: the heartbeat interval is not shorter than the session timeout, or the `group_instance_id` is illegal
    """

    has_topics = False
    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        **AbstractCoordinator.DEFAULT_CONFIG,
        "group_id": "kafka-python-default-group",
        "api_version": (0, 9),
        "metric_group_prefix": "",
    }

    def __init__(self, client: Any, metrics: Metrics | None = None, **configs: Any) -> None:
        super().__init__(getattr(client, "cluster", client), **configs)
        self.heartbeat_task = HeartbeatTask(self)
        self._metrics = GroupCoordinatorMetrics(self.heartbeat, metrics, self.config["metric_group_prefix"])

    # -- the coordinator -----------------------------------------------------------------------------------------------

    def coordinator_unknown(self) -> bool:
        """Return whether the coordinator has to be found; one that has left the cluster is unknown."""
        return self.connection.is_unknown()

    def coordinator_dead(self, error: Any) -> None:
        """Forget which broker coordinates the group.

        :param error: why, for the log
        """
        self.connection.mark_unknown(error)

    def ensure_coordinator_known(self, timeout_ms: int | None = None) -> None:
        """Find the broker that coordinates the group, unless it is known.

        :param timeout_ms: for how long to try; by default the client's socket timeout
        :raises KafkaException: it was not found
        """
        self.connection.find(timeout_ms)

    # -- being a member ------------------------------------------------------------------------------------------------

    def ensure_active_group(self, timeout_ms: int | None = None) -> None:
        """Join, again if need be, until this member has its assignment. A sign of life.

        :param timeout_ms: how long to try; None tries for as long as it takes
        :raises ProtocolClientError: the coordinator refuses for good
        :raises ResponseTimeoutError: not in time
        """
        with self.activity.awaiting():
            error = self.join_until_stable(None if timeout_ms is None else self._handler.now() + timeout_ms / 1000)
        if error is not None:
            raise ResponseTimeoutError(
                f"group {self.group_id}: not a member within {timeout_ms} ms ({error}); the next call continues"
            ) from error

    def join(self, deadline: float | None = None) -> wire.JoinGroupResponse:
        """Join once, and measure how long that took; see `AbstractCoordinator.join`."""
        response = super().join(deadline)
        self._metrics.joined(self._handler.now() - self.join_started)
        return response

    def sync(self, *args: Any, **kwargs: Any) -> bytes:
        """Return this member's assignment, and measure how long that took; see `AbstractCoordinator.sync`."""
        started = self._handler.now()
        assignment = super().sync(*args, **kwargs)
        self._metrics.synced(self._handler.now() - started)
        return assignment

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def poll_heartbeat(self) -> None:
        """Note that the application is alive, and raise the error that ended the heartbeat thread, if one did.

        A program that has joined by `ensure_active_group()` calls this, or that again, within each `max_poll_interval_ms`:
        otherwise the member leaves the group. After an error heartbeats continue, and the next call does not raise it again.

        :raises FencedInstanceId: another member has taken this one's `group_instance_id`; once
        """
        self.activity.count += 1
        self._handle_reports()
        self.sender.raise_error()

    def time_to_next_heartbeat(self) -> float:
        """Return the time until the next heartbeat is due (s): 0 for one that is due, infinite while this is no member."""
        return self.heartbeat.ttl() if self.sender.is_sending else inf

    def _handle_reports(self) -> None:
        super()._handle_reports()
        latency, self.sender.latency = self.sender.latency, 0.0
        if latency:
            self._metrics.answered(latency)


class HeartbeatTask:
    """The switch of a coordinator's heartbeats.

    :param coordinator: that sends them
    """

    def __init__(self, coordinator: BaseCoordinator) -> None:
        self._coordinator = coordinator

    def disable(self) -> None:
        """Send none, until `reset`."""
        self._coordinator.sender.set_target(None)

    def reset(self) -> None:
        """Send them for the present membership; its timeouts begin now."""
        if self._coordinator.membership.state in {State.SYNCING, State.STABLE, State.STALE}:
            self._coordinator.send_heartbeats()
