"""docs/metrics.md has each metric of Java's clients: here, or the reason why not."""

from __future__ import annotations

import pytest

from pykafka.metrics.catalog import ABSENT, Entry, catalog
from pykafka.metrics.metric import COUNTER
from tools import metric_table


def test_the_page_is_up_to_date() -> None:
    assert metric_table.PAGE.read_text() == metric_table.page(), "run `python -m tools.metric_table`"


def test_it_has_all_metrics_of_java() -> None:
    assert len(metric_table.java_rows()) == 490
    page = metric_table.PAGE.read_text()
    for row in metric_table.java_rows():
        assert f"| `{row.name}` |" in page


def test_what_counts_as_javas_is() -> None:
    java = {(row.group, row.name) for row in metric_table.java_rows()}
    assert [entry for entry in catalog() if entry.java and (entry.group, entry.name) not in java] == []


def test_a_metric_without_a_reason_is_named() -> None:
    without = {end: why for end, why in ABSENT.items() if end != "select-rate"}
    with pytest.raises(SystemExit, match="neither in catalog.. nor in ABSENT: .*producer-metrics select-rate"):
        metric_table.java_tables(catalog(), without)


def test_a_metric_of_ours_has_its_name_in_prometheus() -> None:
    entry = Entry("client-hub-metrics", "hold-time-total", ("client-id",), COUNTER, "ms", "held hubs", False)
    assert (
        "| `hold-time-total` |  | ms | `kafka_client_hub_hold_time_seconds_total` | held hubs |"
        in metric_table.own_table([entry])
    )
