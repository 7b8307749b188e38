"""`Before`: what a test function finds on a cluster, so that the tests that share it find the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.testing.fakecluster import FakeCluster

if TYPE_CHECKING:
    from pykafka.testing.plugin.clusters import Cluster


class _Found(NamedTuple):
    """The state of a cluster.

    :param hooks: functions for requests, and those for answers
    :param values: all other, by its kind and what it belongs to
    """

    hooks: tuple[list[Any], list[Any]]
    values: dict[tuple[str, Any], Any]


class Before:
    """The state of a cluster that `restore` puts back: hooks, versions, release, group settings, racks, quotas, tracking.

    `FakeCluster.heal` ends faults; what a test has done to topics, groups and the clock stays.

    :param cluster: that has this state; nothing is kept of a real one
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._found = _found(cluster)
        if self._found is not None:
            assert isinstance(cluster, FakeCluster)
            cluster._faults.has_raised = False  # an error that failed another test

    def restore(self) -> None:
        """Put this state back."""
        cluster, found = self._cluster, self._found
        if not isinstance(cluster, FakeCluster) or cluster.is_closed or found is None:
            return
        with cluster._locked() as state:
            faults, values = cluster._faults, found.values
            faults.on_request[:], faults.on_answer[:] = found.hooks
            faults.received = values["received", None]
            state.release, state.data_path, state.admin_path, state.transactions.path = values["release", None]
            _replace(state.versions, values, "version")
            _replace(state.features.levels, values, "level")
            vars(state.groups.settings).update(_of(values, "setting"))
            for node, rack in _of(values, "rack").items():
                node.rack = rack
            state.quotas.restore(_of(values, "quota"))

    def begin(self) -> Changes:
        """Return what adds to this state all that is changed from now on."""
        return Changes(self._cluster, self._found)


class Changes:
    """Changes of a cluster that belong to a state: those of a fixture that others use, too, while a test has made its own.

    :param cluster: that is about to change
    :param found: the state, without what the test has changed
    """

    def __init__(self, cluster: Cluster, found: _Found | None) -> None:
        self._cluster = cluster
        self._found = found
        self._began = _found(cluster)

    def end(self) -> None:
        """Add what has changed meanwhile to the state."""
        found, began, now = self._found, self._began, _found(self._cluster)
        if found is None or began is None or now is None:
            return
        for key in began.values.keys() | now.values.keys():
            if key not in now.values:
                found.values.pop(key, None)
            elif key not in began.values or began.values[key] != now.values[key]:
                found.values[key] = now.values[key]
        for hooks, former, present in zip(found.hooks, began.hooks, now.hooks, strict=True):
            for hook in _without(former, present):
                if hook in hooks:
                    hooks.remove(hook)
            hooks.extend(_without(present, former))


def _found(cluster: Cluster) -> _Found | None:
    if not isinstance(cluster, FakeCluster) or cluster.is_closed:
        return None
    with cluster._locked() as state:
        faults = cluster._faults
        values: dict[tuple[str, Any], Any] = {
            ("received", None): faults.received,
            ("release", None): (state.release, state.data_path, state.admin_path, state.transactions.path),
        }
        values |= {("version", api): versions for api, versions in state.versions.items()}
        values |= {("level", name): level for name, level in state.features.levels.items()}
        values |= {("setting", name): value for name, value in vars(state.groups.settings).items()}
        values |= {("rack", node): node.rack for node in state.nodes.values()}
        values |= {("quota", entity): dict(rates) for entity, rates in state.quotas.values.items()}
        return _Found((list(faults.on_request), list(faults.on_answer)), values)


def _of(values: dict[tuple[str, Any], Any], kind: str) -> dict[Any, Any]:
    return {key: value for (of, key), value in values.items() if of == kind}


def _replace(present: dict[Any, Any], values: dict[tuple[str, Any], Any], kind: str) -> None:
    """Put back what a dict had; others hold the dict itself."""
    present.clear()
    present.update(_of(values, kind))


def _without(hooks: list[Any], others: list[Any]) -> list[Any]:
    """Return the hooks that are not among others; a function may be there more than once."""
    left = list(hooks)
    for hook in others:
        if hook in left:
            left.remove(hook)
    return left
