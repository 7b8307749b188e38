"""`Before`: what a test function finds on a cluster, so that the tests that share it find the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.testing.fakecluster import FakeCluster

if TYPE_CHECKING:
    from pykafka.testing.plugin.clusters import Cluster


class Before:
    """Hooks, versions, release, settings of groups, racks, quotas, and whether requests are tracked.

    `FakeCluster.heal` ends faults; what a test has done to topics, groups and the clock stays.

    :param cluster: that has them; nothing is kept of a real one
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        if not isinstance(cluster, FakeCluster) or cluster.is_closed:
            return
        with cluster._locked() as state:
            faults, settings = cluster._faults, state.groups.settings
            faults.has_raised = False  # that was another test's
            self._hooks = list(faults.on_request), list(faults.on_answer)
            self._received = faults.received
            self._release = state.release, state.data_path, state.admin_path, state.transactions.path
            self._versions, self._levels = dict(state.versions), dict(state.features.levels)
            self._settings = dict(vars(settings))
            self._racks = {node: node.rack for node in state.nodes.values()}
            self._quotas = {entity: dict(values) for entity, values in state.quotas.values.items()}

    def restore(self) -> None:
        """Make all so again."""
        cluster = self._cluster
        if not isinstance(cluster, FakeCluster) or cluster.is_closed:
            return
        with cluster._locked() as state:
            faults = cluster._faults
            faults.on_request[:], faults.on_answer[:] = self._hooks
            faults.received = self._received
            state.release, state.data_path, state.admin_path, state.transactions.path = self._release
            for present, before in ((state.versions, self._versions), (state.features.levels, self._levels)):
                present.clear()
                present.update(before)  # type: ignore[arg-type]  # each its own
            vars(state.groups.settings).update(self._settings)
            for node, rack in self._racks.items():
                node.rack = rack
            state.quotas.restore(self._quotas)
