"""The timeline of a flight recorder's file, also of a damaged one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from pykafka.metrics.flight_timeline import FlightTimeline

HEADER = {"format": "pykafka-flight", "version": 1, "wall_offset": 1_000_000_000.0}


def request(at: float, api: str = "Fetch", node: int = 1, seconds: float = 0.1) -> dict[str, Any]:
    sizes = {"sent": 10, "received": 20}
    return {"at": at, "kind": "request", "api": api, "node": node, "channel": "main", "seconds": seconds, **sizes}


def event(at: float, kind: str = "rebalanced", subject: str = "group g", detail: str = "") -> dict[str, Any]:
    return {"at": at, "kind": kind, "subject": subject, "seconds": 0.0, "detail": detail}


def written(tmp_path: Path, *lines: Any) -> Path:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines))
    return path


def texts(timeline: FlightTimeline, **filters: Any) -> list[str]:
    return [moment.text for moment in timeline.moments(**filters)]


def test_repeated_requests_are_one_line(tmp_path: Path) -> None:
    lines = [*(request(at, seconds=at / 1000) for at in range(1, 6)), event(6), request(7), request(8, node=2)]
    timeline = FlightTimeline(written(tmp_path, HEADER, *lines))
    assert texts(timeline) == [
        "Fetch  broker 1 main  1.0 to 5.0 ms  50 B > 100 B  (5 times in 4.0 s)",
        "rebalanced  group g  ",
        "Fetch  broker 1 main  100.0 ms  10 B > 20 B",
        "Fetch  broker 2 main  100.0 ms  10 B > 20 B",
    ]
    assert len(texts(timeline, grouped=False)) == 8
    assert next(timeline.moments()).time == "01:46:41.000"


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ({"broker": "2"}, [4]),
        ({"broker": "kafka2"}, [3]),
        ({"kinds": ["request"]}, [1, 4]),
        ({"kinds": ["fetch"]}, [1]),
        ({"kinds": ["transaction"]}, [5]),
        ({"kinds": ["Rebalanced", "produce"]}, [2, 4]),
        ({"since_s": 2.0}, [3, 4, 5]),
        ({"errors": True}, [3]),
        ({"broker": "none"}, []),
    ],
)
def test_filters(tmp_path: Path, filters: dict[str, Any], left: list[int]) -> None:
    lines = [
        *(request(1), event(2), event(3, "unreachable", "kafka2:9092", "ConnectionRefused: no")),
        *(request(4, "Produce", 2), event(5, "transaction commit", "transactional id t")),
    ]
    timeline = FlightTimeline(written(tmp_path, HEADER, *lines))
    assert [round(moment.at - 1e9) for moment in timeline.moments(**filters)] == left


def test_nonsense_between_the_lines_is_counted(tmp_path: Path) -> None:
    bad: list[Any] = [
        *(
            b"\xff\xfe\n",
            b"[1]\n",
            b"{}\n",
            b'{"at": "x", "kind": "a", "subject": ""}\n',
            b'{"at": 1e400}\n',
            b"[" * 99999,
        ),
        *(b"\n", b'{"at": NaN, "kind": "a", "subject": "b"}\n', b'{"at": 1, "kind": "request"}\n'),
        *(b'{"at": 1, "kind": 5, "subject": "b"}\n', b'{"at": true, "kind": "a", "subject": "b"}\n'),
        b'{"at": 1, "kind": "a", "subject": "b", "detail": {}}\n',
    ]
    bad += [{**request(1), "detail": detail} for detail in (5, None, ["x"], True)]
    timeline = FlightTimeline(written(tmp_path, HEADER, event(1), *bad, event(2)))
    assert (len(timeline.entries), timeline.bad_lines) == (2, 15)
    assert len([*timeline.moments(broker="x", errors=True), *timeline.moments(grouped=False)]) == 2


def test_a_text_brings_no_control_character_to_the_terminal(tmp_path: Path) -> None:
    timeline = FlightTimeline(written(tmp_path, HEADER, event(1, subject="a\x1b[2J\n\x9bb")))
    assert texts(timeline) == ["rebalanced  a?[2J??b  "]


@pytest.mark.parametrize(
    "first", [b"", b"\n", b"PK\x03\x04", {"format": "other"}, [1], {**HEADER, "version": 2}, b"\x00" * 99]
)
def test_other_files_are_refused(tmp_path: Path, first: Any) -> None:
    with pytest.raises(ValueError, match=r"f\.jsonl (is not the file|has version 2)"):
        FlightTimeline(written(tmp_path, first))


def test_a_damaged_file_breaks_nothing(tmp_path: Path) -> None:
    whole = written(tmp_path, HEADER, *(request(at) for at in range(50)), *(event(at) for at in range(50))).read_bytes()
    chance = random.Random(1)
    start = whole.index(b"\n")
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 30)):
            damaged[chance.randrange(start, len(damaged))] = chance.randrange(256)
        timeline = FlightTimeline(written(tmp_path, bytes(damaged)))
        assert [(moment.time, moment.text) for moment in timeline.moments()]
