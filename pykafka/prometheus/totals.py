"""`RunningTotals`: the totals of one client, which never fall."""

from __future__ import annotations

from collections.abc import Collection

from pykafka.prometheus.families import TOTAL, Families, Key, Labels, Value


class RunningTotals:
    """Follows the totals of a client, whose producers and consumers end, while others begin under their names.

    A total that is smaller than before has begun anew, so the old one is added; one that is missing stays. So the sum of
    clients and processes never falls, which Prometheus would read as a restart of all of them. A topic that its producer or
    consumer has left stays, too, until `drop`; when it comes back it begins anew.

    Calls come one at a time.
    """

    def __init__(self) -> None:
        #: {(name, labels): what the client said last}, and what is added to that.
        self._last: dict[Key, Value] = {}
        self._added: dict[Key, Value] = {}
        self._shown = Families()
        #: Of the last reading: topics that were left, while their producer or consumer is there.
        self.left: set[Key] = set()

    def follow(self, families: Families) -> None:
        """Replace the totals among a client's figures by those that never fall."""
        before, self.left = self.left, set()
        for name, family in families:
            if family.rule == TOTAL:
                for labels, value in family.samples.items():
                    family.samples[labels] = self._running((name, labels), value, before)
        for name, family in self._shown:
            here = families.labels(name)
            missing = [(labels, value) for labels, value in family.samples.items() if labels not in here]
            if missing:
                parts = {_part(labels) for labels in here}
                self.left.update((name, labels) for labels, _ in missing if _is_left(labels, parts))
            families.add(name, family, missing)
        self._shown = families.counters()

    def drop(self, keys: Collection[Key]) -> None:
        """Forget topics that were left."""
        self._shown = self._shown.without(keys)
        self.left = self.left.difference(keys)
        for key in keys:
            self._last.pop(key, None)
            self._added.pop(key, None)

    def _running(self, key: Key, value: Value, left: Collection[Key]) -> Value:
        last = self._last.get(key)
        if last is not None and (key in left or _size(value) < _size(last)):
            self._added[key] = _plus(last, self._added.get(key))
        self._last[key] = value
        return _plus(value, self._added.get(key))

    def after_fork(self) -> None:
        """Begin at 0 in a forked child, as its clients do: the totals up to now are the parent's."""
        self._last, self._added, self._shown, self.left = {}, {}, Families(), set()


def _part(labels: Labels) -> str:
    return dict(labels).get("client_id", "")


def _is_left(labels: Labels, parts: Collection[str]) -> bool:
    return "topic" in dict(labels) and _part(labels) in parts


def _size(value: Value) -> float:
    return sum(value) if isinstance(value, list) else value


def _plus(value: Value, other: Value | None) -> Value:
    if isinstance(value, list) and isinstance(other, list):
        return [left + right for left, right in zip(value, other, strict=True)]
    if isinstance(value, list) or isinstance(other, list) or other is None:
        return value
    return value + other
