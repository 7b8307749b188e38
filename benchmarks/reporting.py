"""The report: from lines of JSON to Markdown, with medians, ratios to the best peer, targets, and a plot."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from benchmarks.clients import CLIENTS
from benchmarks.targets import TARGETS, Reading, Target
from benchmarks.workloads import SETS, WORKLOADS, Workload

BEGIN, END = "<!-- report: begin -->", "<!-- report: end -->"
Line = dict[str, Any]

#: How figures are headed and written, by the names that lines have for them; those of a task in this order.
COLUMNS: dict[str, tuple[str, str]] = {
    "rate": ("messages/s", ",.0f"),
    "cpu_per_million": ("CPU s per million", ".2f"),
    "p50_ms": ("p50, ms", ".3f"),
    "p99_ms": ("p99, ms", ".3f"),
    "cpu_us": ("CPU us a message", ".0f"),
    "wakeups_per_s": ("wake-ups/s", ".1f"),
    "batch_p50_ms": ("median micro-batch, ms", ".0f"),
    "worker_mib": ("a Python worker, MiB", ".0f"),
    "executor_python_mib": ("Pythons of two cores, MiB", ".0f"),
    "bare_p99_ms": ("bare ticker p99, ms", ".2f"),
    "stall_p50_ms": ("stall p50, ms", ".2f"),
    "stall_p99_ms": ("stall p99, ms", ".2f"),
    "stall_p999_ms": ("stall p99.9, ms", ".2f"),
    "stall_max_ms": ("max, ms", ".1f"),
    "kib_each": ("KiB each", ".0f"),
    "threads": ("threads", ".0f"),
    "setup_s": ("set up in, s", ".2f"),
    "idle_cpu_percent": ("idle CPU, %", ".1f"),
    "rss_grown_mib": ("memory grown to, MiB", ".0f"),
    "rss_over_budget_mib": ("above the budget, MiB", ".0f"),
    "rss_drift_mib": ("first to last tenth, MiB", ".1f"),
    "more_threads": ("more threads", ".0f"),
    "more_descriptors": ("more descriptors", ".0f"),
}
#: More of these is better; of the others, less.
RATES = ("rate", "millions_per_cpu_s")


class Results:
    """The medians of all runs.

    :param lines: of all runs; those that failed are kept apart
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self.lines = list(lines)
        self.failures = [line for line in self.lines if "error" in line]
        self._runs: dict[tuple[str, str], list[Line]] = {}
        for line in self.lines:
            if "error" not in line:
                self._runs.setdefault((line["workload"], line["client"]), []).append(line)

    def runs(self, workload: str, client: str) -> int:
        """Return the number of runs."""
        return len(self._runs.get((workload, client), ()))

    def clients(self, workload: str) -> list[str]:
        """Return the clients that have run a workload, in the order of the table of clients."""
        return [name for name in CLIENTS if (workload, name) in self._runs]

    def measures(self, workload: str) -> list[str]:
        """Return the measured figures among those that the report shows."""
        found = {name for (ran, _), lines in self._runs.items() if ran == workload for name in lines[0]["measures"]}
        return [name for name in COLUMNS if name in found]

    def value(self, reading: Reading) -> float | None:
        """Return the median of a figure; None if it was not measured."""
        medians = [
            statistics.median(values)
            for (workload, client), runs in self._runs.items()
            if workload == reading.workload and fnmatchcase(client, reading.client)
            if (values := [line["measures"][reading.measure] for line in runs if reading.measure in line["measures"]])
        ]
        return best(reading.measure, medians) if medians else None

    def peak_mib(self, workload: str, client: str) -> float:
        """Return the median of the highest memory use (MiB)."""
        return float(statistics.median(line["peak_rss_mib"] for line in self._runs[workload, client]))

    def best_peer(self, workload: str, measure: str) -> tuple[str, float] | None:
        """Return the best peer at a figure, and its value."""
        peers = [name for name in self.clients(workload) if not CLIENTS[name].ours]
        values = [(name, self.value(Reading(workload, name, measure))) for name in peers]
        known = [(name, value) for name, value in values if value is not None]
        if not known:
            return None
        figure = best(measure, [value for _, value in known])
        return next(pair for pair in known if pair[1] == figure)


def best(measure: str, values: Sequence[float]) -> float:
    """Return the best of some values."""
    return max(values) if measure in RATES else min(values)


def read(files: Iterable[Path]) -> list[Line]:
    """Return the lines that `run --out` wrote."""
    return [json.loads(line) for file in files for line in file.read_text().splitlines() if line.strip()]


def markdown(lines: Sequence[Line], plot: str | None = None) -> str:
    """Return the report.

    :param plot: the path of a picture to show, as the document sees it
    """
    results = Results(lines)
    if not lines:
        return "Nothing was measured.\n"
    parts = [_conditions(results)]
    if plot:
        parts.append(f"![Messages a second and CPU seconds per million, by client]({plot})")
    parts += ["### Targets", _judgements(results)]
    for title, workloads in SETS.items():
        tables = [_table(results, workload) for workload in workloads if results.clients(workload.name)]
        if tables:
            parts += [f"### {title.capitalize()}", *tables]
    parts += ["### Settings of the clients", _tunings(results)]
    if results.failures:
        parts += ["### Runs that failed", _failures(results)]
    return "\n\n".join(parts) + "\n"


def insert(document: str, text: str) -> str:
    """Return a document with a report between its marks.

    :raises ValueError: it has no marks
    """
    if BEGIN not in document or END not in document:
        raise ValueError(f"the document has no lines {BEGIN} and {END} to put the report between")
    head, _, rest = document.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}"


def renew(document: str, lines: Sequence[Line]) -> str:
    """Return a document whose report has these results in the place of its own; what they do not measure stays.

    :raises ValueError: the document has no row for a result
    """
    results = Results(lines)
    for target in TARGETS:
        if judge(target, results) is not None:
            row = re.search(rf"^\| {re.escape(target.text)} \|.*$", document, flags=re.MULTILINE)
            if row is None:
                raise ValueError(f"the document has no target {target.text!r}")
            document = f"{document[: row.start()]}{_judgement(target, results)}{document[row.end() :]}"
    for name in sorted({line["workload"] for line in results.lines}):
        table = re.search(rf"^\*\*{re.escape(name)}\*\*:.*\n\n(?:\|.*\n?)+", document, flags=re.MULTILINE)
        if table is None:
            raise ValueError(f"the document has no table of {name}")
        new = _table(results, WORKLOADS[name])
        _, _, columns, _, *rows = table[0].splitlines()
        if not {row.split()[1] for row in rows} <= set(results.clients(name)):
            fresh = {row.split()[1]: row for row in new.splitlines()[4:]}
            new = "\n".join([*new.splitlines()[:4], *(fresh.get(row.split()[1], row) for row in rows)])
            if f"\n{columns}\n" not in new:
                raise ValueError(f"{name} has other columns now: measure all clients")
        document = f"{document[: table.start()]}{new}\n{document[table.end() :]}"
    return document


def judge(target: Target, results: Results) -> tuple[float, bool] | None:
    """Return a target's figure and whether it is met; None if it was not measured."""
    value = results.value(target.reading)
    if value is None:
        return None
    if target.against is not None:
        base = results.value(target.against)
        if not base:
            return None
        value /= base
    met = (target.least is None or value >= target.least) and (target.most is None or value <= target.most)
    return value, met


def _judgements(results: Results) -> str:
    rows = ["| target | bound | measured | |", "|---|---:|---:|---|"]
    return "\n".join([*rows, *(_judgement(target, results) for target in TARGETS)])


def _judgement(target: Target, results: Results) -> str:
    bound = f"≥ {target.least:g}" if target.least is not None else f"≤ {target.most:g}"
    if target.against is not None:
        bound += " x"
    judged = judge(target, results)
    if judged is None:
        return f"| {target.text} | {bound} | | not measured |"
    value, met = judged
    return f"| {target.text} | {bound} | {value:.3g} | {'met' if met else '**not met**'} |"


def _conditions(results: Results) -> str:
    lines = results.lines
    versions = {name: text for line in lines for name, text in line.get("versions", {}).items()}
    commits = sorted({line["commit"] for line in lines})
    loads = [line["load"] for line in lines]
    return (
        f"{len(lines)} runs from {min(line['time'] for line in lines)} to {max(line['time'] for line in lines)}, "
        f"commit {', '.join(commits)}; load average before a run {min(loads):.1f} to {max(loads):.1f}. "
        + ", ".join(f"{name} {versions[name]}" for name in sorted(versions))
        + "."
    )


def _table(results: Results, workload: Workload) -> str:
    clients, measures = results.clients(workload.name), results.measures(workload.name)
    heads = [COLUMNS[name][0] for name in measures]
    judged = next((name for name in measures if name in ("rate", "p50_ms")), None)
    peer = results.best_peer(workload.name, judged) if judged else None
    if peer and judged:
        heads.append(f"{heads[measures.index(judged)].removesuffix(', ms')} to {peer[0]}'s")
    rows = [
        f"**{workload.name}**: {_describe(workload)}",
        "",
        f"| client | {' | '.join(heads)} | peak MiB | runs |",
        f"|---|{'---:|' * (len(heads) + 2)}",
    ]
    for client in clients:
        values = {name: results.value(Reading(workload.name, client, name)) for name in measures}
        cells = ["" if value is None else format(value, COLUMNS[name][1]) for name, value in values.items()]
        if peer and judged:
            value = values[judged]
            cells.append("" if value is None else f"{value / peer[1]:.2f} x")
        peak = f"{results.peak_mib(workload.name, client):.0f}"
        rows.append(f"| {client} | {' | '.join(cells)} | {peak} | {results.runs(workload.name, client)} |")
    return "\n".join(rows)


def _describe(workload: Workload) -> str:
    parts = []
    if workload.messages:
        parts.append(f"{workload.messages:,} messages of {workload.size:,} B")
    parts.append(f"{workload.partitions} partitions" if workload.partitions > 1 else "1 partition")
    if workload.topics > 1:
        parts.append(f"{workload.topics} topics")
    if workload.codec != "none":
        parts.append(workload.codec)
    if workload.writes:
        parts.append("acks=all" if workload.acks == -1 else f"acks={workload.acks}")
    if workload.idempotent:
        parts.append("idempotent")
    if workload.columns:
        parts.append(f"columns {', '.join(workload.columns)}")
    return ", ".join(parts)


def _tunings(results: Results) -> str:
    rows = ["| client | task | settings |", "|---|---|---|"]
    seen = set()
    for line in results.lines:
        task = WORKLOADS[line["workload"]].task if line["workload"] in WORKLOADS else line["workload"]
        if line.get("tuning") and (line["client"], task) not in seen:
            seen.add((line["client"], task))
            rows.append(f"| {line['client']} | {task} | {line['tuning']} |")
    return "\n".join([rows[0], rows[1], *sorted(rows[2:])])


def _failures(results: Results) -> str:
    return "\n".join(
        f"* {line['workload']}, {line['client']}: {str(line['error']).strip().splitlines()[-1]}"
        for line in results.failures
    )


def draw(lines: Sequence[Line], path: Path) -> None:
    """Draw the throughputs: a panel per workload, a bar per client.

    :param path: of the picture; its suffix says which kind
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": "pykafka", "svg.fonttype": "none"}
    from matplotlib import pyplot

    results = Results(lines)
    shown = [
        name
        for name in (
            "produce-100B",
            "produce-100B-acks-all",
            "consume-100B",
            "consume-batch-100B",
            "consume-arrow-100B",
        )
        if results.clients(name)
    ]
    figure, axes = pyplot.subplots(max(1, len(shown)), 2, figsize=(10, 1 + 2 * max(1, len(shown))), squeeze=False)
    for row, workload in zip(axes, shown, strict=False):
        clients = results.clients(workload)[::-1]
        colours = ["tab:blue" if CLIENTS[name].ours else "tab:gray" for name in clients]
        for axis, measure, scale in zip(row, ("rate", "cpu_per_million"), (1e6, 1), strict=True):
            values = [(results.value(Reading(workload, name, measure)) or 0) / scale for name in clients]
            axis.barh(clients, values, color=colours)
            axis.tick_params(labelsize=8)
            axis.set_title(
                f"{workload}: {'million messages/s' if measure == 'rate' else 'CPU s per million'}", fontsize=9
            )
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
