"""The sections of a declaration about transforms: `[[transform]]`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pykafka.spark.pipeline.model import Step
from pykafka.spark.pipeline.sources import read_view, read_watermark
from pykafka.spark.pipeline.tables import Table

#: Spark would run any other statement at once, even for a check.
_QUERY = re.compile(r"(\s|--[^\n]*(\n|$)|/\*.*?\*/)*(\(|(select|with|from|values|table)\b)", re.IGNORECASE | re.DOTALL)


def read_steps(tables: Sequence[Table], views: Sequence[str]) -> tuple[Step, ...]:
    """Return the transforms that tables declare, in order.

    :param views: the views of the sources
    """
    steps: list[Step] = []
    for number, table in enumerate(tables, 1):
        taken = [view.lower() for view in (*views, *(step.view for step in steps)) if view]
        sql, view = table.text("sql", required=True), read_view(table, "view", "", taken)
        steps.append(Step(sql, view, read_watermark(table.table("watermark"))))
        table.finish()
        if sql and not _QUERY.match(sql):
            table.problem("sql", "must be a query, which begins with SELECT, WITH, FROM, VALUES or TABLE")
        if not view and number < len(tables):
            table.problem("view", "missing: only the last step needs none, as its rows go to the sink")
    return tuple(steps)
