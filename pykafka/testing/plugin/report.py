"""`Recorder`: the last requests of a fake cluster, for the report of a test that fails."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from pykafka.errors.base import ERROR_CODES
from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.names import api_name

if TYPE_CHECKING:
    from pykafka.protocol.schema import Response
    from pykafka.testing.call import Call
    from pykafka.testing.plugin.clusters import Cluster

#: How many requests are kept.
_KEPT = 15


class _Asked:
    """One request: a line of the report."""

    def __init__(self, call: Call, now_ms: int) -> None:
        self.call: Call | None = call
        self.at_ms = now_ms
        self.what = f"broker {call.node.node_id}  {api_name(call.request.api_key)} v{call.version}"
        self.client_id = call.client_id or ""
        self.outcome = "no answer"


class Recorder:
    """The last requests of a cluster, with the errors that they were answered with.

    :param cluster: a real one shows its address only
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked: deque[_Asked] = deque(maxlen=_KEPT)
        if isinstance(cluster, FakeCluster):
            self._state = cluster._state
            self._began_ms = self._state.now_ms()
            cluster.on_request(self._on_request)
            cluster.on_answer(self._on_answer)

    def _on_request(self, call: Call) -> None:
        self._asked.append(_Asked(call, self._state.now_ms()))

    def _on_answer(self, call: Call, response: Response) -> None:
        for asked in reversed(tuple(self._asked)):
            if asked.call is call:
                asked.call = None  # it may hold many records
                codes = sorted(set(_codes(response)) - {0})
                asked.outcome = ", ".join(
                    ERROR_CODES[code].NAME if code in ERROR_CODES else str(code) for code in codes
                )
                return

    def text(self) -> str:
        """Return the section of the report."""
        cluster = self._cluster
        if not isinstance(cluster, FakeCluster):
            return f"a real one: {cluster.hosts}"
        with self._state.lock:
            faults = [*cluster._faults.outcomes, *cluster._faults.conditions]
            lines = [
                f"Kafka {self._state.release.name}, {len(cluster.broker_ids)} brokers; {len(self._state.topics)} topics"
            ]
            lines += [f"broker {node.node_id} is stopped" for node in self._state.nodes.values() if not node.is_up]
            lines += [f"broker {node.node_id} is paused" for node in self._state.nodes.values() if node.is_paused]
            lines += [f"broker {number} is {ms} ms late" for number, ms in cluster._faults.latencies.items() if ms]
        if cluster._faults.first_error is not None:
            lines.append(cluster._faults.first_error[0])
        lines += [f"set up: {fault!r}" for fault in faults if fault.left != 0]
        lines.append(
            f"last requests (s since the cluster's start), of {len(self._asked)}:" if self._asked else "no request"
        )
        for asked in tuple(self._asked):
            at = (asked.at_ms - self._began_ms) / 1000
            lines.append(f"{at:9.3f}  {asked.what:<36} {asked.client_id[:20]:<20} {asked.outcome}".rstrip())
        return "\n".join(lines)


def _codes(part: Any) -> list[int]:
    """Return the error codes of a response and of all its parts."""
    codes = []
    for name, value in vars(part).items() if hasattr(part, "__dict__") else ():
        if name == "error_code":
            codes.append(value)
        elif isinstance(value, list):
            codes += [code for one in value for code in _codes(one)]
    return codes
