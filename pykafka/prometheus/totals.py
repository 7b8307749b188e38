"""`RunningTotals`: the totals of one client, which never fall."""

from __future__ import annotations

from pykafka.prometheus.families import TOTAL, Families, Labels, Value


class RunningTotals:
    """Follows the totals of a client, whose producers and consumers end, while others begin under their names.

    A total that is smaller than before has begun anew, so the old one is added; one that is missing stays. So the sum of
    clients and processes never falls, which Prometheus would read as a restart of all of them.

    Calls come one at a time.
    """

    def __init__(self) -> None:
        #: {(name, labels): what the client said last}, and what is added to that.
        self._last: dict[tuple[str, Labels], Value] = {}
        self._added: dict[tuple[str, Labels], Value] = {}
        self._shown = Families()

    def follow(self, families: Families) -> None:
        """Replace the totals among a client's figures by those that never fall."""
        for name, family in families:
            if family.rule == TOTAL:
                for labels, value in family.samples.items():
                    family.samples[labels] = self._running((name, labels), value)
        for name, family in self._shown:
            here = families.labels(name)
            missing = [(labels, value) for labels, value in family.samples.items() if labels not in here]
            families.add(name, family, missing)
        self._shown = families.counters()

    def _running(self, key: tuple[str, Labels], value: Value) -> Value:
        last = self._last.get(key)
        if last is not None and _size(value) < _size(last):
            self._added[key] = _plus(last, self._added.get(key))
        self._last[key] = value
        return _plus(value, self._added.get(key))

    def after_fork(self) -> None:
        """Begin at 0 in a forked child, as its clients do: the totals up to now are the parent's."""
        self._last, self._added, self._shown = {}, {}, Families()


def _size(value: Value) -> float:
    return sum(value) if isinstance(value, list) else value


def _plus(value: Value, other: Value | None) -> Value:
    if isinstance(value, list) and isinstance(other, list):
        return [left + right for left, right in zip(value, other, strict=True)]
    if isinstance(value, list) or isinstance(other, list) or other is None:
        return value
    return value + other
