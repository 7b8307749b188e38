"""The names in queries of dashboards: metrics and labels, checked against a scrape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client.core import Metric as PrometheusMetric

DASHBOARDS = Path(__file__).resolve().parents[2] / "examples" / "dashboards"
#: Words of the language that are no names of metrics.
WORDS = {"by", "without", "on", "ignoring", "group_left", "group_right", "bool", "and", "or", "unless", "offset"}
#: Labels that Prometheus adds to each series.
OF_PROMETHEUS = {"instance", "job"}
_SELECTOR = re.compile(r"(?<![\w:])([a-zA-Z_:][\w:]*+)\s*+(?:\{([^}]*)\})?+(?!\s*\()")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_VARIABLE_QUERY = re.compile(r"label_values\((\w+), (\w+)\)")


class Query(NamedTuple):
    """A query of a dashboard.

    :param place: dashboard and panel
    :param text: in PromQL
    :param legend: with {{label}} in it
    """

    place: str
    text: str
    legend: str = ""

    def names(self) -> dict[str, set[str]]:
        """Return {metric: labels that it is selected by}."""
        text = re.sub(r"\[[^]]*\]|\$\w+", "", _GROUPING.sub("", re.sub(r'"[^"]*"', '""', self.text)))
        found: dict[str, set[str]] = {}
        for name, matchers in _SELECTOR.findall(text):
            if name not in WORDS:
                labels = {re.split(r"[=!]", one)[0].strip() for one in matchers.split(",") if one.strip()}
                found.setdefault(name, set()).update(labels)
        return found

    def labels(self) -> set[str]:
        """Return the labels that it groups by or shows."""
        grouped = {label.strip() for group in _GROUPING.findall(self.text) for label in group.split(",")}
        return (grouped | set(re.findall(r"\{\{(\w+)\}\}", self.legend))) - {""}

    def mistakes(self, labels: Mapping[str, set[str]]) -> list[str]:
        """Return what it names and is not there.

        :param labels: {metric: its labels}, see `labels_of`
        """
        names = self.names()
        found = [f"{self.place}: there is no metric {name}" for name in names if name not in labels]
        for name, selected in names.items():
            for label in sorted(selected - labels.get(name, selected) - OF_PROMETHEUS):
                found.append(f"{self.place}: {name} has no label {label}")
        known = set[str]().union(*(labels.get(name, set()) for name in names)) | OF_PROMETHEUS
        return found + [f"{self.place}: there is no label {label}" for label in sorted(self.labels() - known)]


def labels_of(families: Iterable[PrometheusMetric]) -> dict[str, set[str]]:
    """Return {name of a series: its labels} of a scrape."""
    found: dict[str, set[str]] = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def queries() -> Iterator[Query]:
    """Yield all queries of the dashboards: of panels, and of variables, whose values they list."""
    for path in sorted(DASHBOARDS.glob("*.json")):
        board: dict[str, Any] = json.loads(path.read_text())
        for variable in board["templating"]["list"]:
            match = _VARIABLE_QUERY.fullmatch(variable["query"])
            if match is not None:
                yield Query(f"{path.name}, ${variable['name']}", f"count by ({match[2]}) ({match[1]})")
            else:
                assert variable["query"] == "prometheus", variable
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield Query(f"{path.name}, {panel['title']}", target["expr"], target["legendFormat"])
