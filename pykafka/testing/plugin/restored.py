"""`Before`: what a test function finds on a cluster, so that the tests that share it find the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pykafka.testing.fakecluster import FakeCluster

if TYPE_CHECKING:
    from pykafka.testing.plugin.clusters import Cluster


K = TypeVar("K")
V = TypeVar("V")


class Before:
    """The state of a cluster that `restore` puts back: hooks, versions, release, group settings, racks, quotas, tracking.

    `FakeCluster.heal` ends faults; what a test has done to topics, groups and the clock stays.

    :param cluster: that has this state; nothing is kept of a real one
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        if not isinstance(cluster, FakeCluster) or cluster.is_closed:
            return
        with cluster._locked() as state:
            faults, settings = cluster._faults, state.groups.settings
            faults.has_raised = False  # an error that failed another test
            self._hooks = list(faults.on_request), list(faults.on_answer)
            self._received = faults.received
            self._release = state.release, state.data_path, state.admin_path, state.transactions.path
            self._versions, self._levels = dict(state.versions), dict(state.features.levels)
            self._settings = dict(vars(settings))
            self._racks = {node: node.rack for node in state.nodes.values()}
            self._quotas = {entity: dict(values) for entity, values in state.quotas.values.items()}

    def restore(self) -> None:
        """Put this state back."""
        cluster = self._cluster
        if not isinstance(cluster, FakeCluster) or cluster.is_closed:
            return
        with cluster._locked() as state:
            faults = cluster._faults
            faults.on_request[:], faults.on_answer[:] = self._hooks
            faults.received = self._received
            state.release, state.data_path, state.admin_path, state.transactions.path = self._release
            _replace(state.versions, self._versions)
            _replace(state.features.levels, self._levels)
            vars(state.groups.settings).update(self._settings)
            for node, rack in self._racks.items():
                node.rack = rack
            state.quotas.restore(self._quotas)


def _replace(present: dict[K, V], before: dict[K, V]) -> None:
    """Put back what a dict had; others hold the dict itself."""
    present.clear()
    present.update(before)
