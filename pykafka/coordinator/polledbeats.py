"""`PolledHeartbeats`: the calls by which a program looks after the heartbeats of its member, as kafka-python 1.4 named them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.coordinator.heartbeat import Activity, Heartbeat, HeartbeatSender


class PolledHeartbeats(ABC):
    """A member whose program calls `poll_heartbeat()` regularly; heartbeats go out without that."""

    activity: Activity
    heartbeat: Heartbeat
    sender: HeartbeatSender

    @abstractmethod
    def _take_news(self) -> None:
        """Change the membership as the news of the heartbeat's thread demands."""

    def poll_heartbeat(self) -> None:
        """Note that the application is alive, and raise the error that ended the thread of heartbeats, if one did.

        A program that has joined by `ensure_active_group()` calls this, or that again, within each `max_poll_interval_ms`:
        otherwise the member leaves the group. After an error heartbeats go on: the next call raises it no more.

        :raises FencedInstanceId: another member has taken this one's `group_instance_id`; once
        """
        self.activity.count += 1
        self._take_news()
        self.sender.raise_error()

    def time_to_next_heartbeat(self) -> float:
        """Return the time until the next heartbeat is due (s): 0 for one that is due, infinite while this is no member."""
        return self.heartbeat.ttl() if self.sender.is_beating else inf
