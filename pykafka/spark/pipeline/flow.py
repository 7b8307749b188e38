"""The flow of a pipeline as a picture, from its declaration alone: a graph, drawn as SVG and as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from pykafka.spark.options import read_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.model import ERROR, Input, Parsing

#: Kinds of nodes.
SOURCE, PARSE, VIEW, SINK, POOL = "source", "parse", "view", "sink", "aside"
#: Fill and line of each kind.
_COLOURS = {
    SOURCE: ("#dbeafe", "#2563eb"),
    PARSE: ("#f3e8ff", "#7c3aed"),
    VIEW: ("#f1f5f9", "#475569"),
    SINK: ("#dcfce7", "#15803d"),
    POOL: ("#fee2e2", "#b91c1c"),
}
#: Sizes of the picture (px): a letter, a line, and the space around and between boxes.
_LETTER, _LINE, _PAD, _ACROSS, _DOWN, _MARGIN = 6.8, 17, 12, 70, 22, 24
_HEAD = 34
#: Letters of a line in a box; lines of SQL in a box.
_WIDE, _LINES = 38, 4
#: Letters of each part of a line in the text.
_LONGEST = 100


@dataclass
class Node:
    """A box of the picture.

    :param kind: which colour it has
    :param title: its first line
    :param lines: further lines
    :param before: the nodes that lead here
    """

    kind: str
    title: str
    lines: tuple[str, ...] = ()
    before: list[Node] = field(default_factory=list)


def nodes_of(declaration: Declaration) -> list[Node]:
    """Return the flow of a pipeline, each node behind those that lead to it."""
    nodes: list[Node] = []
    views: dict[str, Node] = {}
    for one in declaration.inputs:
        source = Node(
            SOURCE, f"source {one.view}", (_topics(one), f"on {one.source.options['kafka.bootstrap.servers']}")
        )
        nodes.append(source)
        views[one.view] = source
        if one.parsing is not None:
            parse = Node(
                PARSE,
                f"parse {one.parsing.format} of {one.parsing.column}",
                (_schema_of(one.parsing),),
                [source],
            )
            nodes.append(parse)
            views[one.view] = parse
            if one.malformed is not None:
                nodes.append(Node(POOL, "malformed", (str(one.malformed),), [parse]))
    for step in declaration.steps:
        before = [node for name, node in views.items() if name and _reads(step.sql, name)]
        lines = [" ".join(step.sql.split())]
        if step.watermark is not None:
            lines.append(f"watermark {step.watermark.column}, {step.watermark.delay}")
        views[step.view] = Node(VIEW, f"step {step.view}".strip(), tuple(lines), before)
        nodes.append(views[step.view])
    if declaration.dead_letters is not None:
        failing = [node for node in nodes if node.kind == PARSE or (node.kind == VIEW and _reads(node.lines[0], ERROR))]
        nodes.append(Node(POOL, "dead letters", (str(declaration.dead_letters),), failing or nodes[:1]))
    for output in declaration.outputs:
        nodes.append(Node(SINK, f"sink {output.name}".strip(), (str(output.sink),), [views[output.view]]))
    return nodes


def _topics(one: Input) -> str:
    reads = read_options(one.source.options, Mode.STREAM_READ).subscription
    if reads.pattern is not None:
        return f"topics like {reads.pattern.pattern}"
    topics = sorted({*reads.topics, *(tp.topic for tp in reads.partitions)})
    return f"topic{'s' if len(topics) > 1 else ''} {', '.join(topics)}"


def _reads(sql: str, view: str) -> bool:
    """Return whether a query names a view, outside of its texts and comments."""
    bare = re.sub(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL)
    return re.search(rf"(?<![\w.]){re.escape(view)}(?!\w)", bare, re.IGNORECASE) is not None


# -- text


def as_text(declaration: Declaration) -> str:
    """Return the flow as a tree; a node that several lead to is drawn below the first, and named below the others."""
    nodes = nodes_of(declaration)
    after = {id(node): [other for other in nodes if node in other.before] for node in nodes}
    drawn: set[int] = set()

    def draw(node: Node, first: str, rest: str) -> Iterator[str]:
        if id(node) in drawn:
            yield f"{first}{node.title} (see above)"
            return
        drawn.add(id(node))
        yield f"{first}{node.title}: {'; '.join(map(_shortened, node.lines))}"
        below = after[id(node)]
        for number, other in enumerate(below, 1):
            last = number == len(below)
            yield from draw(other, f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}")

    lines = [_caption(declaration)]
    for node in nodes:
        if not node.before:
            lines += draw(node, "", "")
    return "\n".join(lines)


def _shortened(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 4]} ..."


def _caption(declaration: Declaration) -> str:
    return f"{declaration.name} (trigger: {declaration.trigger}, checkpoint: {declaration.checkpoint})"


# -- SVG


@dataclass
class _Box:
    """A node at its place (px)."""

    node: Node
    text: list[str]
    column: int
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0


def as_svg(declaration: Declaration) -> str:
    """Return the flow as a picture, from left to right."""
    boxes = _placed(nodes_of(declaration))
    by_node = {id(box.node): box for box in boxes}
    caption = _caption(declaration)
    width = max(max(box.x + box.width for box in boxes) + _MARGIN, len(caption) * _LETTER * 1.1 + 2 * _MARGIN)
    height = max(box.y + box.height for box in boxes) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M 0 1 L 9 5 L 0 9 z" fill="#64748b"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="{_MARGIN}" font-size="14" font-weight="bold" fill="#0f172a">{escape(caption)}</text>',
    ]
    for box in boxes:
        for node in box.node.before:
            parts.append(_edge(by_node[id(node)], box))
    parts += map(_drawn, boxes)
    return "\n".join([*parts, "</svg>", ""])


def _placed(nodes: Sequence[Node]) -> list[_Box]:
    """Return the boxes in columns, each to the right of all that lead to it and beside their middle."""
    boxes: dict[int, _Box] = {}
    for node in nodes:
        column = 1 + max((boxes[id(one)].column for one in node.before), default=-1)
        text = [line for text in node.lines for line in _folded(text)]
        box = boxes[id(node)] = _Box(node, text, column)
        box.width = 2 * _PAD + _LETTER * max(len(line) for line in (node.title + "  ", *text))
        box.height = 2 * _PAD + _LINE * (1 + len(text))
    columns: list[list[_Box]] = [[] for _ in range(1 + max(box.column for box in boxes.values()))]
    for box in boxes.values():
        columns[box.column].append(box)
    x = float(_MARGIN)
    for beside in columns:
        wanted = {id(box): _middle_before(box, boxes) for box in beside}
        beside.sort(key=lambda box: wanted[id(box)])
        y = float(_MARGIN + _HEAD)
        for box in beside:
            box.x, box.y = x, max(y, wanted[id(box)] - box.height / 2)
            y = box.y + box.height + _DOWN
        x += max(box.width for box in beside) + _ACROSS
    return list(boxes.values())


def _middle_before(box: _Box, boxes: dict[int, _Box]) -> float:
    before = [boxes[id(one)] for one in box.node.before]
    return sum(one.y + one.height / 2 for one in before) / len(before) if before else 0.0


def _folded(text: str) -> list[str]:
    """Return a text in lines that fit a box, and the last one with dots if there are more."""
    lines = [""]
    for word in text.split():
        for start in range(0, len(word), _WIDE):
            part = word[start : start + _WIDE]
            joined = f"{lines[-1]} {part}".strip() if not start else part
            if start or len(joined) > _WIDE:
                lines.append(part)
            else:
                lines[-1] = joined
    return lines if len(lines) <= _LINES else [*lines[: _LINES - 1], f"{lines[_LINES - 1][: _WIDE - 2]} ..."]


def _edge(left: _Box, right: _Box) -> str:
    x1, y1 = left.x + left.width, left.y + left.height / 2
    x2, y2 = right.x - 2, right.y + right.height / 2
    bend = (x2 - x1) / 2
    dashed = ' stroke-dasharray="5 4"' if right.node.kind == POOL else ""
    return (
        f'<path d="M {x1:.1f} {y1:.1f} C {x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}" fill="none" '
        f'stroke="#64748b" stroke-width="1.5"{dashed} marker-end="url(#arrow)"/>'
    )


def _drawn(box: _Box) -> str:
    fill, line = _COLOURS[box.node.kind]
    parts = [
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="8" fill="{fill}" '
        f'stroke="{line}" stroke-width="1.5"/>'
    ]
    for number, text in enumerate([box.node.title, *box.text]):
        y = box.y + _PAD + _LINE * (number + 0.75)
        bold = f' font-weight="bold" fill="{line}"' if not number else ' fill="#1e293b"'
        parts.append(f'<text x="{box.x + _PAD:.1f}" y="{y:.1f}"{bold}>{escape(text)}</text>')
    return f"<g><title>{escape(f'{box.node.title}: ' + '; '.join(box.node.lines))}</title>{''.join(parts)}</g>"


def _schema_of(parsing: Parsing) -> str:
    """Return the schema of records, or where it is."""
    if parsing.schema:
        return parsing.schema
    options = parsing.options
    for name in ("schema_file", "descriptor_file"):
        if name in options:
            return f"schema of {options[name]}"
    subject = options.get("subject") or f"{options.get('topic', '')}-{parsing.column}"
    return f"schema of {subject}, version {options.get('version', 'latest')}"
