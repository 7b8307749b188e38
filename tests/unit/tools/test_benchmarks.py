"""The benchmark program: which workloads are run, and what a report makes of lines that were measured."""

from __future__ import annotations

import json
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clients import CLIENTS
from benchmarks.clients.base import Seen
from benchmarks.instructions import compare, total
from benchmarks.job import Job, number_of, numbered, payloads, quantile
from benchmarks.reporting import BEGIN, END, Results, insert, judge, markdown, read, renew
from benchmarks.running import RunFailed, check_seen
from benchmarks.targets import TARGETS, Reading, Target
from benchmarks.workloads import SETS, WORKLOADS, select

ROOT = Path(__file__).resolve().parents[3]


def line(workload: str, client: str, repetition: int = 0, **measures: float) -> dict[str, Any]:
    return {
        "workload": workload,
        "client": client,
        "repetition": repetition,
        "time": f"2026-11-21T12:00:0{repetition}Z",
        "load": 0.5,
        "commit": "abc1234",
        "wall_s": 1.0,
        "cpu_s": 0.5,
        "peak_rss_mib": 50.0,
        "messages": 1000,
        "versions": {"python": "3.11.2", "pykafka": "3.0"},
        "tuning": "linger_ms=20",
        "measures": measures,
    }


LINES = [
    *(line("produce-100B", "pykafka", n, rate=rate, cpu_per_million=0.4) for n, rate in enumerate((10, 900, 800))),
    line("produce-100B", "pykafka-greenlets", rate=400, cpu_per_million=0.4),
    line("produce-100B", "confluent-kafka", rate=500, cpu_per_million=1.0),
    line("produce-100B", "confluent-kafka-default", rate=300, cpu_per_million=1.0),
    line("produce-100B", "aiokafka", rate=100, cpu_per_million=8.0),
    {**line("consume-100B", "kafka-python"), "error": "Traceback\nTimeoutError: no answer"},
]


def test_a_workload_is_chosen_by_name_by_pattern_and_by_set() -> None:
    assert [workload.name for workload in select(["consume-100B"])] == ["consume-100B"]
    assert {workload.codec for workload in select(["produce-1KiB-*"])} == {"none", "snappy", "lz4", "zstd"}
    assert select(["spark"]) == list(SETS["spark"])
    assert select(["*"]) == list(WORKLOADS.values())


def test_only_the_clients_that_are_named_run_and_workloads_that_none_of_them_can_do_are_left_out() -> None:
    chosen = select(["throughput"], ["aiokafka"])
    assert {workload.clients for workload in chosen} == {("aiokafka",)}
    assert "consume-arrow-100B" not in {workload.name for workload in chosen}


@pytest.mark.parametrize(("patterns", "clients"), [(["nothing"], None), (["spark"], ["aiokafka"])])
def test_what_chooses_nothing_is_refused_by_name(patterns: list[str], clients: list[str] | None) -> None:
    with pytest.raises(ValueError, match="nothing" if clients is None else "aiokafka"):
        select(patterns, clients)


def test_every_workload_can_be_done_by_clients_that_there_are() -> None:
    for workload in WORKLOADS.values():
        assert workload.clients
        assert set(workload.clients) <= set(CLIENTS)
        assert not workload.writes or workload.messages % workload.topics == 0


def test_every_target_reads_what_is_measured() -> None:
    for target in TARGETS:
        for reading in filter(None, (target.reading, target.against)):
            assert any(fnmatchcase(name, reading.client) for name in WORKLOADS[reading.workload].clients), target.text
        assert (target.least is None) != (target.most is None)


def test_a_median_is_taken_of_the_runs_that_succeeded() -> None:
    results = Results(LINES)
    assert results.value(Reading("produce-100B", "pykafka", "rate")) == 800
    assert results.value(Reading("consume-100B", "kafka-python", "rate")) is None
    assert results.best_peer("produce-100B", "rate") == ("confluent-kafka", 500)
    assert results.best_peer("produce-100B", "cpu_per_million") == ("confluent-kafka", 1.0)


@pytest.mark.parametrize(
    ("least", "most", "against", "judged"),
    [
        (800, None, None, (800, True)),
        (801, None, None, (800, False)),
        (1.6, None, "confluent-kafka", (1.6, True)),
        (None, 1.5, "confluent-kafka*", (1.6, False)),
        (1.6, None, "confluent-kafka*", (1.6, True)),
        (1, None, "kafka-python", None),
    ],
)
def test_a_target_is_met_or_not_or_was_not_measured(
    least: float | None, most: float | None, against: str | None, judged: tuple[float, bool] | None
) -> None:
    base = Reading("produce-100B", against, "rate") if against else None
    target = Target("rate", Reading("produce-100B", "pykafka", "rate"), least, most, base)
    assert judge(target, Results(LINES)) == judged


def test_a_report_has_targets_tables_settings_and_failures(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in LINES))
    text = markdown(read([path]), "performance.svg")
    assert "| produce 100 B, acks=1: messages/s, to confluent-kafka's | ≥ 1.3 x | 1.6 | met |" in text
    assert "| produce 100 B, acks=1: greenlets' messages/s, to threads' | ≥ 0.85 x | 0.5 | **not met** |" in text
    assert "| pykafka | 800 | 0.40 | 1.60 x | 50 | 3 |" in text
    assert "not measured" in text
    assert "abc1234" in text
    assert "linger_ms=20" in text
    assert "* consume-100B, kafka-python: TimeoutError: no answer" in text
    assert "](performance.svg)" in text


def test_a_report_takes_the_place_of_the_last_one_in_a_document() -> None:
    document = f"# Title\n\n{BEGIN}\nold\n{END}\n\nThe end.\n"
    assert insert(document, "new\n") == f"# Title\n\n{BEGIN}\n\nnew\n\n{END}\n\nThe end.\n"
    with pytest.raises(ValueError, match="report: begin"):
        insert("# Title\n", "new\n")


def test_what_was_measured_again_takes_the_place_of_its_rows_alone() -> None:
    others = line("consume-100B", "pykafka", rate=7, cpu_per_million=3)
    document = f"# Title\n\n{markdown([*LINES, others])}\nThe end.\n"
    again = [{**one, "measures": {"rate": 1000, "cpu_per_million": 0.1}} for one in LINES if "error" not in one]
    text = renew(document, again)
    assert "| produce 100 B, acks=1: messages/s, to confluent-kafka's | ≥ 1.3 x | 1 | **not met** |" in text
    assert "| pykafka | 1,000 | 0.10 | 1.00 x | 50 | 3 |" in text
    assert "800" not in text
    assert "| pykafka | 7 | 3.00 |" in text, "consume-100B was not measured again"
    assert text.count("**produce-100B**") == 1
    assert text.endswith("The end.\n")
    part = renew(document, [one for one in again if one["client"] != "aiokafka"])
    assert "| aiokafka | 100 |" in part
    assert "| confluent-kafka | 1,000 |" in part
    with pytest.raises(ValueError, match="no target"):
        renew("# Title\n", again)


def test_the_report_command_writes_into_a_document_and_draws_a_plot(tmp_path: Path) -> None:
    lines, document, plot = (tmp_path / name for name in ("lines.jsonl", "document.md", "plot.svg"))
    lines.write_text("".join(json.dumps(one) + "\n" for one in LINES))
    document.write_text(f"{BEGIN}\n{END}\n")
    # In a process of its own: matplotlib keeps the files of its fonts open.
    command = [sys.executable, "-m", "benchmarks", "report", str(lines), "--into", str(document), "--plot", str(plot)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=60)
    assert "](plot.svg)" in document.read_text()
    assert "<svg" in plot.read_text()


def test_values_are_the_same_in_every_process_and_carry_their_number() -> None:
    pool = payloads(100)
    assert pool == payloads(100)
    assert {len(value) for value in pool} == {100}
    assert number_of(numbered(10, 1234567, payloads(10))) == 1234567
    assert len(numbered(100, 5, pool)) == 100


def test_a_consumer_must_have_read_everything() -> None:
    job = Job("127.0.0.1:1", ("topic",), messages=9, partitions=3)
    pool = payloads(100)
    check_seen(Seen(9, numbered(100, 6, pool)), job)
    with pytest.raises(RunFailed, match="8 messages"):
        check_seen(Seen(8, numbered(100, 8, pool)), job)
    with pytest.raises(RunFailed, match="not one of the last"):
        check_seen(Seen(9, numbered(100, 5, pool)), job)


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0], 0.999) == 1.0


def test_more_instructions_than_the_baseline_are_told_by_name() -> None:
    assert total("summary: 12\ntotals: 12345\n") == 12345
    shown, wrong = compare(
        {"encode": 110.0, "decode": 90.0, "new": 1.0}, {"encode": 100.0, "decode": 100.0, "old": 1.0}
    )
    assert len(shown) == 2
    assert "--update" in shown[1]
    assert [sentence.split()[0] for sentence in wrong] == ["encode", "new", "old"]
    assert not compare({"encode": 104.0}, {"encode": 100.0})[1]


def test_the_command_line_lists_what_there_is() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "list"], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60
    )
    assert "many-consumers" in done.stdout
