"""docs/configuration.md says what options cost; docs/spark.md has Spark's options."""

from __future__ import annotations

import re

from pykafka.spark.optiontable import OPTIONS, Mode
from tests.docs.pages import ROOT
from tools import options

SPARK = (ROOT / "docs" / "spark.md").read_text()


def test_the_page_says_what_options_cost() -> None:
    """Those without a word of it are few: what they cost is nothing, or what they mean."""
    rows = [row for section in options.sections() for row in options.cells(section)]
    assert len(rows) > 60
    assert sum(1 for row in rows if not row[4]) < len(rows) / 5


def spark_rows() -> dict[str, list[str]]:
    """Return the cells of the tables of options; a row may have several options, or `kafka.ssl.*`."""
    text = SPARK[SPARK.index("## Options") :]
    rows = re.findall(r"^\| ([\w.*, ]+?) \| (.*) \|$", text, re.MULTILINE)
    return {
        name: [cell.strip() for cell in cells.split("|")] for names, cells in rows for name in re.split(r", *", names)
    }


def test_every_option_of_spark_is_listed_with_where_it_is_valid() -> None:
    """Defaults are compared where the table has a number."""
    rows = spark_rows()
    modes = (Mode.BATCH_READ, Mode.STREAM_READ, Mode.BATCH_WRITE)
    for option in OPTIONS:
        family = next((name for name in ("kafka.ssl.", "kafka.sasl.") if option.name.startswith(name)), None)
        cells = rows[option.name if family is None else f"{family}*"]
        for mode, cell in zip(modes, cells, strict=False):
            effective = bool(mode & option.valid) and not option.idle
            assert effective == (cell not in {"", "ignored"}), (option.name, mode, cell)
        if cells[3].isdigit():
            assert int(cells[3]) == option.default, option.name


def test_no_option_of_spark_is_listed_that_is_not_there() -> None:
    text = SPARK[SPARK.index("| option | read: batch") : SPARK.index("| options of the Java client |")]
    named = {name for names in re.findall(r"^\| ([\w., ]+?) \|", text, re.MULTILINE) for name in names.split(", ")}
    assert named - {option.name for option in OPTIONS} - {"option"} == set()
