"""`TopicIds`: what a producer does about a topic that was made anew."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

import pytest

from pykafka.exceptions import TopicRecreatedError
from pykafka.producer.options import ProducerOptions
from pykafka.producer.topic_ids import TopicIds

FIRST, SECOND = UUID(int=1), UUID(int=2)


class Known:
    """A cluster that knows one topic's id."""

    id_: UUID | None = FIRST
    generation = 1

    def topic_id(self, name: str) -> UUID | None:
        return self.id_


def test_a_topic_that_is_gone_keeps_its_id_until_there_is_another(caplog: pytest.LogCaptureFixture) -> None:
    cluster: Any = Known()
    targets = TopicIds(cluster)
    assert targets.id_of("t") == FIRST
    cluster.id_ = None
    assert targets.id_of("t") == FIRST
    cluster.id_ = SECOND
    with caplog.at_level(logging.WARNING):
        assert targets.id_of("t") == targets.id_of("t") == SECOND
    assert len(caplog.records) == 1
    assert str(FIRST) in caplog.text
    assert str(SECOND) in caplog.text


def test_it_can_be_told_to_fail() -> None:
    cluster: Any = Known()
    targets = TopicIds(cluster, fail=True)
    targets.begin("t")
    cluster.id_ = SECOND
    for _ in range(2):
        with pytest.raises(TopicRecreatedError, match="recreated") as caught:
            targets.id_of("t")
    assert (caught.value.old_id, caught.value.new_id, caught.value.topic) == (FIRST, SECOND, "t")
    targets.begin("t")
    assert targets.id_of("t") == SECOND


def test_brokers_without_ids() -> None:
    cluster: Any = Known()
    cluster.id_ = None
    assert TopicIds(cluster, fail=True).id_of("t") is None


def test_bad_values_are_refused_by_name() -> None:
    bad: Any = "ignore"
    with pytest.raises(ValueError, match="on_topic_recreated must be one of 'continue', 'fail', not 'ignore'"):
        ProducerOptions(on_topic_recreated=bad)
    bad = 1
    with pytest.raises(TypeError, match="on_topic_recreated must be one of 'continue', 'fail', not int: 1"):
        ProducerOptions(on_topic_recreated=bad)
