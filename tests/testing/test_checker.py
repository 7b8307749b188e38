"""The checker finds each anomaly that was planted in a history, by name, and nothing in histories that break no promise."""

from __future__ import annotations

import json
from io import StringIO

import pytest

from pykafka.common import TopicPartition
from pykafka.testing.checker import Anomaly, Checker, Kind, Ordinary
from pykafka.testing.history import Poll, Read
from tests.testing.histories import LEGAL, PLANTED
from tests.testing.stories import TOPIC, Story, Write

#: What stories explain errors with.
ORDINARY = (
    Ordinary(("Error",)),
    Ordinary(("TimeOut",), ("send", "close"), ("pause", "fail RETRIABLE"), lasts_ms=100),
    Ordinary(("NoTopic",), faults=("change delete",), lasts_ms=100),
    Ordinary(("InvalidRecordState",), ("acknowledge",)),
    Ordinary(("NoLeader",), ("send",), ("leaderless {topic}",)),
    Ordinary(("HeldUp",), ("send",), ("outdated {topic} {partition}",), 100, durable=True),
)


def names(anomalies: list[Anomaly]) -> list[str]:
    return [anomaly.kind.value for anomaly in anomalies]


def ids(cases: list[tuple[str, Write]]) -> list[str]:
    return [write.__name__ for _, write in cases]


@pytest.mark.parametrize(("kind", "write"), PLANTED, ids=ids(PLANTED))
def test_planted(kind: str, write: Write) -> None:
    """Each anomaly is found once, by its name, with the operations that show it and a sentence, and nothing else is."""
    story = Story()
    write(story)
    anomalies = Checker(ordinary=ORDINARY).check(story)
    assert names(anomalies) == [kind], "\n".join(map(str, anomalies))
    (anomaly,) = anomalies
    assert anomaly.operations
    assert str(anomaly).startswith(f"{kind}: {anomaly.sentence}\n")
    assert all(operation in story.operations for operation in anomaly.operations)


def test_each_kind_is_planted() -> None:
    assert {kind for kind, _ in PLANTED} == {kind.value for kind in Kind}


@pytest.mark.parametrize(("observed", "write"), LEGAL, ids=ids(LEGAL))
def test_legal(observed: str, write: Write) -> None:
    """Nothing is found in a history that breaks no promise; what is allowed is said apart, with the reason."""
    story = Story()
    write(story)
    checker = Checker(ordinary=ORDINARY)
    assert checker.check(story) == []
    assert names(checker.observe(story)) == ([observed] if observed else [])


@pytest.mark.parametrize("idempotent", [True, False])
def test_promises_of_the_producer(idempotent: bool) -> None:
    """Duplicates and another order are anomalies of an idempotent producer alone."""
    story = Story()
    story.producer(idempotent=idempotent)
    story.send(1, 2)
    story.send(2, 1)
    story.poll((0, 1), (1, 2), (2, 1))
    found = Checker().observe(story)
    assert names(found) == ["nonmonotonic-send", "duplicate"]
    assert [bool(anomaly.allowed) for anomaly in found] == [not idempotent] * 2


@pytest.mark.parametrize("slack_ms", [1, 2])
def test_slack(slack_ms: int) -> None:
    """A call may end a little after its deadline, if the checker is told how much."""
    story = Story()
    story.call("close", timeout_ms=10, lasts_ms=12)
    assert bool(Checker(slack_ms).check(story)) is (slack_ms < 2)


def test_lines() -> None:
    """A line has what is known, in a fixed order; the same history gives the same lines."""
    texts = []
    for _ in range(2):
        story, file = Story(), StringIO()
        story.send(7, 12)
        story.end(story.invoke("c", Poll(), 100), "fail")
        story.note("c", Poll((Read(TOPIC, 0, (12,), (7,)),)))
        story.write(file)
        texts.append(file.getvalue())
    assert texts[0] == texts[1]
    lines = texts[0].splitlines()
    assert lines[:2] == [
        '{"n":0,"ms":1,"who":"p","is":"invoke","what":"send","topic":"t","value":7,"partition":0}',
        '{"n":1,"ms":2,"who":"p","is":"ok","call":0,"what":"send","topic":"t","value":7,"partition":0,"offset":12}',
    ]
    assert [json.loads(line) for line in lines[2:]] == [
        {"n": 2, "ms": 3, "who": "c", "is": "invoke", "what": "poll", "deadline": 103},
        {"n": 3, "ms": 4, "who": "c", "is": "fail", "call": 2, "what": "poll", "error": "Error"},
        {"n": 4, "ms": 5, "who": "c", "is": "note", "what": "poll", "reads": [[TOPIC, 0, [12], [7]]]},
    ]


def test_timeline() -> None:
    """An operation reads as a line for a person."""
    story = Story()
    story.poll((4, 7), (5, 8))
    story.assigned(3, TopicPartition(TOPIC, 0))
    assert [" ".join(str(operation).split()) for operation in story] == [
        "0.001 s #0 c poll invoke",
        "0.002 s #1 c poll ok reads=[t-0@4..5:7,8]",
        "0.003 s #2 c assigned group=g generation=3 partitions=[t-0]",
    ]
