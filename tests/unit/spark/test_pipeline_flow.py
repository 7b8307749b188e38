"""The picture of a pipeline: what leads where, for each kind of source, step and sink, and that nothing lies over another."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from pykafka.cli.app import tools
from pykafka.spark.pipeline import Declaration
from pykafka.spark.pipeline.flow import as_svg, as_text, nodes_of

TOP = 'checkpoint = "/c"\n'
SOURCE = '[source]\nbrokers = "b:1"\ntopic = "clicks"\n'
PARSE = '[parse]\nformat = "json"\nschema = "user STRING"\n'
SINK = '[sink]\nformat = "parquet"\npath = "/data/clicks"\n'
TWO = (
    '[[source]]\nview = "a"\nbrokers = "b:1"\ntopic = "ta"\n[[source]]\nview = "b"\nbrokers = "b:1"\npattern = "tb-.*"\n'
    '[source.parse]\nformat = "csv"\nschema = "user STRING"\n[source.malformed]\nformat = "topic"\ntopic = "bad"\n'
    '[[transform]]\nview = "both"\nsql = "SELECT * FROM a JOIN b USING (user)"\n'
    '[[transform]]\nview = "one"\nsql = "SELECT \'b\' AS x, both.user /* a */ FROM both -- a"\n'
    'watermark = { column = "at", delay = "1 hour" }\n'
    '[[sink]]\nname = "x"\nfrom = "one"\nformat = "parquet"\npath = "/x<&>"\n'
    '[[sink]]\nname = "y"\nfrom = "both"\nformat = "topic"\ntopic = "out"\n'
    '[[sink]]\nname = "z"\nfrom = "a"\nformat = "parquet"\npath = "/z"\npartition_by = ["user"]\n'
)
KINDS = {
    "least": (SOURCE + SINK, [("sink", "source records")]),
    "parsed": (SOURCE + PARSE + SINK, [("parse json of value", "source records"), ("sink", "parse json of value")]),
    "malformed": (
        SOURCE + PARSE + '[malformed]\nformat = "parquet"\npath = "/bad"\n' + SINK,
        [
            ("malformed", "parse json of value"),
            ("parse json of value", "source records"),
            ("sink", "parse json of value"),
        ],
    ),
    "steps": (
        SOURCE + '[[transform]]\nview = "v"\nsql = "SELECT * FROM Records"\n[[transform]]\nsql = "FROM v"\n' + SINK,
        [("sink", "step"), ("step v", "source records"), ("step", "step v")],
    ),
    "two": (
        TWO,
        [
            ("malformed", "parse csv of value"),
            ("parse csv of value", "source b"),
            ("sink x", "step one"),
            ("sink y", "step both"),
            ("sink z", "source a"),
            ("step both", "parse csv of value"),
            ("step both", "source a"),
            ("step one", "step both"),
        ],
    ),
}


def load(path: Path, text: str) -> Declaration:
    file = path / "clicks.toml"
    file.write_text(TOP + text)
    return Declaration.load(file)


@pytest.mark.parametrize("kind", KINDS)
def test_what_leads_where(tmp_path: Path, kind: str) -> None:
    text, edges = KINDS[kind]
    nodes = nodes_of(load(tmp_path, text))
    assert sorted((node.title, before.title) for node in nodes for before in node.before) == sorted(edges)


@pytest.mark.parametrize("kind", KINDS)
def test_picture(tmp_path: Path, kind: str) -> None:
    """It is XML; boxes are within it and not over each other, and each arrow leads to the right."""
    declaration = load(tmp_path, KINDS[kind][0])
    root = ElementTree.fromstring(as_svg(declaration))
    space = "{http://www.w3.org/2000/svg}"
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = []
    for group in root.iter(f"{space}g"):
        rect = group.find(f"{space}rect")
        assert rect is not None
        x, y, wide, high = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x < x + wide <= width
        assert 0 <= y < y + high <= height
        boxes.append((x, y, x + wide, y + high))
    assert len(boxes) == len(nodes_of(declaration))
    for (left, top, right, bottom), (left2, top2, right2, bottom2) in combinations(boxes, 2):
        assert right <= left2 or right2 <= left or bottom <= top2 or bottom2 <= top
    for path in root.iter(f"{space}path"):
        if "marker-end" in path.attrib:
            numbers = [float(word) for word in path.attrib["d"].split() if word not in "MC"]
            assert numbers[0] < numbers[-2]


def test_text(tmp_path: Path) -> None:
    assert as_text(load(tmp_path, TWO)).splitlines() == [
        "clicks (trigger: available_now, checkpoint: /c)",
        "source a: topic ta; on b:1",
        "├─ step both: SELECT * FROM a JOIN b USING (user)",
        "│  ├─ step one: SELECT 'b' AS x, both.user /* a */ FROM both -- a; watermark at, 1 hour",
        "│  │  └─ sink x: Parquet in /x<&>",
        "│  └─ sink y: topic out on b:1",
        "└─ sink z: Parquet in /z by user",
        "source b: topics like tb-.*; on b:1",
        "└─ parse csv of value: user STRING",
        "   ├─ malformed: topic bad on b:1",
        "   └─ step both (see above)",
    ]


def test_command(tmp_path: Path) -> None:
    load(tmp_path, SOURCE + SINK)
    picture = tmp_path / "clicks.svg"
    result = CliRunner().invoke(tools, ["pipeline", str(tmp_path / "clicks.toml"), "--explain", "--svg", str(picture)])
    assert result.exit_code == 0, result.output
    assert "└─ sink: Parquet in /data/clicks" in result.output
    assert picture.read_text().startswith("<svg ")
    result = CliRunner().invoke(
        tools, ["pipeline", str(tmp_path / "clicks.toml"), "--svg", str(tmp_path / "no" / "x.svg")]
    )
    assert result.exit_code == 1
    assert "No such file" in result.output
