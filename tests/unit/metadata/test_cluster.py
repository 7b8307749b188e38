"""`Cluster` by itself: what it asks for, and how often."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pprint import pformat
from typing import Any

import pytest

from pykafka import KafkaClient, aio
from pykafka.exceptions import ClientClosedError, LeaderNotFoundError, NoBrokersAvailableError, UnknownTopicOrPartition
from pykafka.handlers import Handler
from pykafka.protocol import wire
from tests.support.loops import run_coroutine
from tests.support.scripted import TOPIC, ScriptedBroker
from tests.support.waiting import until

ALONE = """
import sys
from pykafka.cluster import Cluster
from pykafka.handlers import ThreadingHandler
cluster = Cluster(sys.argv[1], ThreadingHandler())
print(cluster.topics[sys.argv[2]].name)
cluster.close()
"""


def test_a_cluster_imported_alone_makes_topics() -> None:
    """It ended in a RecursionError, as nothing had said what to make topics of."""
    with ScriptedBroker() as broker:
        asked = [sys.executable, "-c", ALONE, broker.hosts, TOPIC]
        result = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert (result.stdout.strip(), result.stderr) == (TOPIC, "")


class Asked(ScriptedBroker):
    """A broker of many topics, which counts how often it is asked for them.

    :param topics: {name: leaders of its partitions}
    """

    def __init__(self, topics: dict[str, list[int]]) -> None:
        super().__init__()
        self.topics = topics
        #: What each question for metadata names; None for all.
        self.questions: list[list[str] | None] = []
        #: Whether each of them may create what it names.
        self.creating: list[bool] = []

    def _respond(self, request: Any) -> Any:
        if isinstance(request, wire.ListOffsetsRequest):
            return wire.ListOffsetsResponse(
                topics=[
                    wire.ListOffsetsResponse.Topic(
                        name=topic.name,
                        partitions=[
                            wire.ListOffsetsResponse.Topic.Partition(partition_index=one.partition_index, offset=0)
                            for one in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )
        if not isinstance(request, wire.MetadataRequest):
            return super()._respond(request)
        names = None if request.topics is None else [str(topic.name) for topic in request.topics]
        self.questions.append(names)
        self.creating.append(bool(names) and request.allow_auto_topic_creation)
        answer = self._metadata()
        answer.topics = [self._topic(name) for name in (self.topics if names is None else names)]
        return answer

    def _topic(self, name: str) -> wire.MetadataResponse.Topic:
        if name not in self.topics:
            return wire.MetadataResponse.Topic(name=name, error_code=3)
        return wire.MetadataResponse.Topic(
            name=name,
            partitions=[
                wire.MetadataResponse.Topic.Partition(
                    partition_index=number, leader_id=leader, error_code=0 if leader > 0 else 5
                )
                for number, leader in enumerate(self.topics[name])
            ],
        )


#: All pauses at two fifths of what they are by default.
PAUSES: dict[str, Any] = {"retry_backoff_ms": 40, "retry_backoff_max_ms": 400}
LEADERLESS = {"wide": [-1] * 100} | {f"narrow-{number}": [-1] for number in range(50)}


@pytest.fixture
def leaderless() -> Iterator[Asked]:
    broker = Asked(dict(LEADERLESS))
    with broker:
        yield broker


def test_many_partitions_without_leader_are_asked_for_in_one_question_and_more_seldom_each_time(
    leaderless: Asked, handler: Handler
) -> None:
    """A consumer that started asked for each of them ten times a second."""
    with KafkaClient(leaderless.hosts, handler=handler, **PAUSES) as client:
        keys = {(name, number): -1 for name, leaders in LEADERLESS.items() for number in range(len(leaders))}
        del leaderless.questions[:]
        with pytest.raises(LeaderNotFoundError):
            client.cluster.list_offsets(keys, timeout_ms=1000)
        assert 2 <= len(leaderless.questions) <= 16
        leaderless.topics = {name: [1] * len(leaders) for name, leaders in LEADERLESS.items()}
        assert len(client.cluster.list_offsets(keys)) == 150


def test_a_starting_consumer_waits_for_leaders_without_a_storm(leaderless: Asked, handler: Handler) -> None:
    with KafkaClient(leaderless.hosts, handler=handler, **PAUSES, socket_timeout_ms=1000) as client:
        topic = client.topics["wide"]
        del leaderless.questions[:]
        with pytest.raises(LeaderNotFoundError):
            topic.get_simple_consumer()
        assert len(leaderless.questions) <= 16


def test_who_asks_for_a_leader_again_and_again_causes_few_questions(leaderless: Asked, handler: Handler) -> None:
    with KafkaClient(leaderless.hosts, handler=handler, **PAUSES) as client:
        del leaderless.questions[:]
        end = handler.now() + 0.6
        while handler.now() < end:
            with pytest.raises(LeaderNotFoundError):
                client.cluster.leader("narrow-1", 0)
            with pytest.raises(UnknownTopicOrPartition):
                client.cluster.leader("nothing", 0)
            handler.sleep(0.01)
        assert len(leaderless.questions) <= 20
        leaderless.topics["narrow-1"] = [1]
        until(handler, lambda: _led(client))


def _led(client: KafkaClient) -> bool:
    try:
        return client.cluster.leader("narrow-1", 0).id == 1
    except LeaderNotFoundError:
        return False


@pytest.fixture
def large() -> Iterator[Asked]:
    broker = Asked({f"topic-{number}": [1, 1] for number in range(20)})
    with broker:
        yield broker


def test_only_topics_in_use_are_asked_for(large: Asked, handler: Handler) -> None:
    """Every Spark worker was sent all of the cluster's 20,000 partitions, 16 MB."""
    with KafkaClient(large.hosts, handler=handler) as client:
        topic = client.topics["topic-3"]
        cluster = client.cluster
        assert cluster.leader("topic-5", 1).id == 1
        cluster.refresh_schedule.updated_at = -1e9
        large.topics["topic-3"] = [1, 1, 1]
        cluster.refresh_if_old()
        assert not cluster.metadata_is_old
        assert sorted(topic.partitions) == [0, 1, 2]
        assert None not in large.questions
        assert large.questions[0] == []
        assert sorted(large.questions[-1] or ()) == ["topic-3", "topic-5"]
        cluster.list_offsets({(f"topic-{number}", 0): -1 for number in range(10)})
        assert len(large.questions) <= 7


def test_listing_topics_sees_all_of_them(large: Asked, handler: Handler) -> None:
    wanted = sorted(large.topics)
    for listed in (
        sorted,
        lambda topics: sorted(topics.keys()),
        lambda topics: sorted(dict(topics)),
        lambda topics: sorted(name for name, _ in topics.items()),
        lambda topics: sorted(topic.name for topic in topics.values()),
        lambda topics: sorted(name for name in wanted if name in topics and repr(name) in repr(topics)),
        lambda topics: wanted if len(topics) == len(wanted) and topics else [],
    ):
        with KafkaClient(large.hosts, handler=handler) as client:
            assert listed(client.topics) == wanted
            assert "nothing" not in client.topics
            del large.questions[:]
            assert len(client.topics) == len(list(client.topics))
            assert len(large.questions) <= 1
            assert client.topics.get("nothing") is None


@pytest.mark.parametrize("show", [repr, str, "{}".format, "%s".__mod__, pformat])
def test_showing_topics_shows_their_names(large: Asked, handler: Handler, show: Callable[[Any], str]) -> None:
    """print(client.topics) of a new client showed {}."""
    with KafkaClient(large.hosts, handler=handler) as client:
        topic = client.topics["topic-7"]
        del large.questions[:]
        shown = show(client.topics)
        assert all(f"'{name}': None" in shown for name in large.topics if name != topic.name)
        assert "'topic-7': <weakref" in shown
        assert show(client.topics) == shown
        assert len(large.questions) == 1


def test_comparing_topics_compares_all_of_them(large: Asked, handler: Handler) -> None:
    with KafkaClient(large.hosts, handler=handler) as client:
        assert client.topics != {}
        assert not client.topics == {}  # noqa: SIM201 - the other operator
        assert client.topics == dict.fromkeys(large.topics)


def test_topics_can_be_shown_when_they_cannot_be_listed(
    large: Asked, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A debugger or a log waited for the cluster, and failed on a client that was closed."""
    monkeypatch.setattr("pykafka.metadata.topics.SHOW_MS", 300)
    with KafkaClient(large.hosts, handler=handler) as client:
        topic = client.topics["topic-7"]
        large.closes_on = lambda key, version: key == wire.MetadataRequest.api_key
        began = time.monotonic()
        assert repr(client.topics).startswith("{'topic-7': <weakref")
        assert client.topics != {}
        assert time.monotonic() - began < 10
    for shown in (repr(client.topics), f"{client.topics}", repr(client), repr(client.cluster), repr(topic)):
        assert "topic-7" in shown or "<pykafka." in shown


def test_showing_topics_on_an_event_loop_asks_nobody(large: Asked) -> None:
    """It would block the loop; what had been tried in vain failed the next call."""

    async def show() -> None:
        async with aio.KafkaClient(large.hosts) as client:
            del large.questions[:]
            assert repr(client.topics) == "<pykafka.aio.Topics over {}>"
            assert large.questions == []
            assert sorted(await client.topics.keys()) == sorted(large.topics)
            assert "'topic-8': None" in repr(client.topics)

    run_coroutine("asyncio", show())


@pytest.mark.parametrize(
    "listed", [len, list, bool, dict, lambda topics: topics.keys(), lambda topics: topics.values()]
)
@pytest.mark.parametrize("known", [False, True])
def test_topics_of_a_closed_client_cannot_be_listed(large: Asked, handler: Handler, listed: Any, known: bool) -> None:
    """Listing raised or not, depending on the age of the metadata."""
    with KafkaClient(large.hosts, handler=handler) as client:
        if known:
            client.update_cluster()
    with pytest.raises(ClientClosedError, match="topics cannot be listed; make a new KafkaClient"):
        listed(client.topics)


def test_whether_there_is_a_topic_is_asked_by_name(large: Asked, handler: Handler) -> None:
    with KafkaClient(large.hosts, handler=handler) as client:
        assert "topic-7" in client.topics
        assert b"topic-8" in client.topics
        assert "nothing" not in client.topics
        assert large.questions == [[], ["topic-7"], ["topic-8"], ["nothing"]]
        del large.topics["topic-7"]
        client.cluster.update(["topic-7"])
        assert "topic-7" not in client.topics
        client.update_cluster()
        assert sorted(client.topics) == sorted(large.topics)


def test_a_call_with_a_deadline_does_not_wait_for_the_questions_of_others(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker asks for metadata at a time; brokers that swallow packets may hold it for minutes."""
    with ScriptedBroker() as broker, KafkaClient(broker.hosts, handler=handler, socket_timeout_ms=10_000) as client:
        cluster, asking, released = client.cluster, handler.Event(), handler.Event()
        really = cluster.ask_metadata

        def ask(*args: Any) -> Any:
            asking.set()
            assert released.wait(60)
            return really(*args)

        monkeypatch.setattr(cluster, "ask_metadata", ask)
        worker = handler.spawn(cluster.update)
        assert asking.wait(10)
        late = "another call .* for 100 ms"
        with pytest.raises(NoBrokersAvailableError, match=late):
            cluster.update([], 100)
        with pytest.raises(NoBrokersAvailableError, match=late):
            cluster.refresh(cluster.generation, [TOPIC], 100)
        with pytest.raises(NoBrokersAvailableError, match=late):
            cluster.find_leaders([("unknown", 0)], 100)
        released.set()
        assert worker.join(10)
        cluster.update([], 10_000)
