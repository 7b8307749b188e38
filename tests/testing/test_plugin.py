"""The pytest plugin, in runs of pytest of their own, as users have them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import UnknownTopicOrPartition
from pykafka.testing import FakeCluster
from tests.brokers import KafkaCluster
from tests.support.entrypoints import ROOT
from tests.testing.plugin_runs import Run, run_fixture  # noqa: F401  (a fixture)

pytest_plugins = ["pytester"]


def test_fixtures(run: Run) -> None:
    result = run(
        """
        import time

        import pytest

        from pykafka.handlers import GEventHandler, ThreadingHandler

        clusters = set()


        @pytest.fixture(autouse=True)
        def _each_has_its_own(kafka_cluster):
            assert kafka_cluster.hosts not in clusters
            clusters.add(kafka_cluster.hosts)


        @pytest.mark.parametrize("kafka_handler", ["threads", "gevent"])
        def test_round_trip(kafka_client, kafka_topic, assert_delivered, consume_all, kafka_handler):
            kinds = {"threads": ThreadingHandler, "gevent": GEventHandler}
            assert type(kafka_client._handler) is kinds[kafka_handler]
            producer = kafka_client.producer(linger_ms=50)
            for number in range(10):
                producer.produce(kafka_topic, b"%d" % number)
            assert_delivered(kafka_topic, [str(number) for number in range(10)])
            assert len(consume_all(kafka_topic)) == 10


        @pytest.mark.kafka(handler="gevent", partitions=7)
        def test_marked(kafka_client, kafka_topic):
            assert type(kafka_client._handler) is GEventHandler
            assert kafka_topic.startswith("test_marked-")
            assert len(kafka_client.admin.describe_topics([kafka_topic])[kafka_topic].partitions) == 7


        @pytest.mark.parametrize("name", ["ä /", "x" * 300])
        def test_names_of_topics_are_legal(kafka_topic, kafka_client, name):
            kafka_client.producer().produce(kafka_topic, b"1").get(timeout=10)


        def test_clock(kafka_clock, kafka_cluster):
            before = kafka_clock.now()
            assert abs(before - time.time()) < 60
            kafka_clock.advance(3600)
            kafka_cluster.advance(3600)
            assert 7200 <= kafka_clock.now() - before < 7260


        def test_messages_that_wait_for_a_broker_are_delivered_at_the_end(kafka_cluster, kafka_client, kafka_topic):
            producer = kafka_client.producer()
            producer.produce(kafka_topic, b"1").get(timeout=10)
            for broker in kafka_cluster.broker_ids:
                kafka_cluster.stop(broker)
            producer.produce(kafka_topic, b"2")
        """
    )
    result.assert_outcomes(passed=7)


RELEASES = ["0.8.2", "0.9.0", "0.10.2", "0.11.0", "2.8.2", "4.4"]


def test_the_marker(run: Run) -> None:
    result = run(
        f"""
        import pytest

        RELEASES = {RELEASES}
        """
        + """
        @pytest.mark.parametrize(
            "number", [pytest.param(n, marks=pytest.mark.kafka(version=v, brokers=1)) for n, v in enumerate(RELEASES)]
        )
        def test_versions(kafka_client, kafka_topic, assert_delivered, number):
            kafka_client.producer().produce(kafka_topic, b"%d" % number)
            assert_delivered(kafka_topic, [str(number)])
            with kafka_client.consumer(kafka_topic) as consumer:
                assert consumer.one(timeout=10).value == b"%d" % number
            assert len(kafka_client.brokers) == 1


        @pytest.mark.kafka(
            topics={"a": 2, "b": {"partitions": 3, "cleanup.policy": "compact"}, "c": {}},
            config={"retention.ms": 5, "group.max.size": 1, "group.initial.rebalance.delay.ms": 0},
            partitions=5,
        )
        class TestTopics:
            def test_partitions_and_configuration(self, kafka_client, kafka_topic):
                from pykafka.admin import ConfigResource

                named = ["a", "b", "c", kafka_topic]
                described = kafka_client.admin.describe_topics(named)
                assert [len(described[name].partitions) for name in named] == [2, 3, 5, 5]
                assert {len(one.replicas) for name in named for one in described[name].partitions} == {3}
                configs = kafka_client.admin.describe_configs([ConfigResource.topic(name) for name in named])
                assert {one["retention.ms"].value for one in configs.values()} == {"5"}
                assert configs[ConfigResource.topic("b")]["cleanup.policy"].value == "compact"

            @pytest.mark.kafka(brokers=2, topics={"d": 1})  # the nearest counts, argument by argument
            def test_the_nearest_counts(self, kafka_cluster, kafka_topic):
                assert kafka_cluster.broker_ids == [1, 2]
                assert [kafka_cluster.has_topic(name) for name in "ad"] == [False, True]

            def test_groups(self, kafka_client):
                from pykafka.exceptions import GroupMaxSizeReached

                options = {"group": "g", "protocol": "classic"}
                with kafka_client.consumer("a", **options) as first:
                    first.poll(timeout=3)
                    with pytest.raises(GroupMaxSizeReached), kafka_client.consumer("a", **options) as second:
                        second.poll(timeout=10)


        @pytest.mark.kafka(
            topics={"t": 1},
            faults=[
                ("fail", "Produce", "NOT_LEADER_OR_FOLLOWER", {"times": 2}),
                ("cut", "Metadata", "after"),
                ("stop", 2),
            ],
        )
        def test_faults(kafka_cluster, kafka_client, assert_delivered):
            assert len(kafka_cluster.pending("Produce")) == len(kafka_cluster.pending("Metadata")) == 1
            assert kafka_client.producer().produce("t", b"1").get(timeout=20).offset == 0
            assert not kafka_cluster.pending("Produce")
            assert_delivered("t", ["1"])
        """
    )
    result.assert_outcomes(passed=len(RELEASES) + 4)


REFUSED = {
    "brockers=3": "has no argument 'brockers': did you mean 'brokers'?",
    "x=3": "has no argument 'x': one of version, brokers",
    "'2.8.2'": "takes keyword arguments only, as kafka(version=...): '2.8.2'",
    "brokers=0": "brokers is 0: a whole number from 1 on",
    "partitions='4'": "partitions is '4': a whole number from 1 on",
    "handler='gvent'": 'handler is \'gvent\': "threads" or "gevent"',
    "topics=['a']": "topics is ['a']: a dict by names",
    "faults=[('fial', 'Produce')]": "has no fault 'fial': did you mean 'fail'?",
    "topics={'a': '4'}": "has topic 'a': partitions is '4': a whole number from 1 on",
    "topics={'a b': 4}": "has topic 'a b': Topic name is invalid",
    "config={'group.max.size': 'many'}": "has config: group.max.size is 'many': a whole number from 1 to 2147483647",
    "faults=None": "faults is None: a list of tuples",
    "faults=['stop']": "faults has 'stop': each is a tuple",
    "config={'retention.mss': 1}": "has config: Unknown topic config name: retention.mss",
    "topics={'a': {'cleanup.policy': 'x'}}": "has topic 'a': Invalid value x for configuration cleanup.policy",
    "faults=[('fail', 'Prodce', 'NONE')]": "has fault ('fail', 'Prodce', 'NONE'): unknown API 'Prodce'",
    "faults=[('stop', 9)]": "has fault ('stop', 9): there is no broker 9",
    "faults=[('stop', 1, 2)]": "has fault ('stop', 1, 2): ",
    "version='new'": "has version 'new': ",
    "version=3.9": "version is 3.9: text such as",
}


def test_what_is_misspelt_is_refused_by_name(run: Run) -> None:
    tests = [f"@pytest.mark.kafka({told})\ndef test_{at}(kafka_topic): pass\n" for at, told in enumerate(REFUSED)]
    result = run("import pytest\n\n" + "\n".join(tests))
    assert result.parseoutcomes() == {"errors": len(REFUSED) - 3, "failed": 3}
    output = result.stdout.str()
    assert [text for text in REFUSED.values() if text not in output] == []


def test_markers_of_projects_that_have_one_of_this_name_stay(run: Run) -> None:
    own = "@pytest.fixture\ndef kafka_topic(): return 'ours'\n\n"
    test = "@pytest.mark.kafka('slow', x=1)\ndef test_{}({}): pass\n\n"
    result = run(f"import pytest\n\n{own}{test.format(1, '')}{test.format(2, 'kafka_topic')}")
    result.assert_outcomes(passed=2)


def test_a_failure_shows_what_the_brokers_were_asked(run: Run) -> None:
    source = """
        import pytest


        @pytest.mark.kafka(topics={"t": 1}, faults=[("fail", "Produce", "NOT_ENOUGH_REPLICAS", 99), ("stop", 3)])
        def test_it(kafka_client):
            delivery = kafka_client.producer(delivery_timeout_ms=300).produce("t", b"1")
            with pytest.raises(Exception, match="NOT_ENOUGH_REPLICAS"):
                delivery.get(timeout=10)
            pytest.fail("it is over")


        def test_another(kafka_client):
            pass


        @pytest.fixture
        def service(kafka_cluster, kafka_client):
            kafka_cluster.pause(2)
            raise ValueError("it did not start")


        def test_service(service):
            pass
        """
    for options in (), ("-n", "2"):  # each worker of pytest-xdist has clusters of its own
        result = run(source, *options)
        result.assert_outcomes(passed=1, failed=1, errors=1)
        result.stdout.re_match_lines(
            [
                "-+ Kafka cluster -+",
                "Kafka 4.4.0, 3 brokers; 0 topics",
                "broker 2 is paused",
                ".* Metadata v\\d+ +pykafka",
                "-+ Kafka cluster -+",
                "broker 3 is stopped",
                "set up: <Failure Produce: .*>",
                ".* Produce v\\d+ +pykafka +NOT_ENOUGH_REPLICAS",
            ]
        )


def test_a_cluster_of_ones_own(run: Run) -> None:
    result = run(
        """
        import pytest

        from pykafka import EmbeddedCluster


        @pytest.fixture
        def kafka_cluster():
            with EmbeddedCluster(brokers=1) as cluster:
                yield cluster


        @pytest.mark.kafka(partitions=2)
        def test_it(kafka_client, kafka_topic, assert_delivered, consume_all):
            kafka_client.producer().produce(kafka_topic, b"1").get(timeout=10)
            assert_delivered(kafka_topic, ["1"])


        @pytest.mark.kafka(faults=[("stop", 1)])
        def test_faults(kafka_client): pass
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    assert "has faults, which a fixture kafka_cluster of your own does not set up" in result.stdout.str()


SHARED = """
import pytest

{mark}


class TestOne:
    def test_topic(self, kafka_cluster, kafka_client):
        kafka_cluster.create_topic("kept", 1)
        kafka_cluster.stop(1)
        kafka_cluster.pause(2)
        kafka_cluster.fail("Produce", "NOT_ENOUGH_REPLICAS", 99)
        kafka_cluster.on_request(lambda call: pytest.fail("a hook outlives its test"))
        kafka_cluster.set_versions("Produce", -1, -1)

    def test_topic_is_there_and_faults_are_not(self, kafka_cluster, kafka_client, assert_delivered):
        kafka_client.producer().produce("kept", b"1").get(timeout=10)
        assert_delivered("kept", ["1"])

    @pytest.mark.kafka(faults=[("fail", "Produce", "NOT_ENOUGH_REPLICAS")])
    def test_faults_of_one(self, kafka_cluster):
        assert kafka_cluster.pending("Produce")

    @pytest.mark.kafka(version="1.1.1")
    def test_refused(self, kafka_cluster):
        pass


def test_outside_of_the_class(kafka_cluster):
    assert kafka_cluster.has_topic("kept") == {shared}
    assert kafka_cluster.broker_ids == {brokers}


@pytest.fixture(scope="class")
def hosts(kafka_cluster):
    return kafka_cluster.hosts


def test_other_fixtures(hosts):
    assert hosts
"""


@pytest.mark.parametrize(
    ("scope", "shared", "brokers"), [("class", False, [1, 2]), ("module", True, [1, 2]), ("session", True, [1, 2, 3])]
)
def test_a_cluster_that_tests_share(run: Run, scope: str, shared: bool, brokers: list[int]) -> None:
    # a session has no marker
    mark = "" if scope == "session" else "pytestmark = pytest.mark.kafka(brokers=2)"
    result = run(SHARED.format(mark=mark, shared=shared, brokers=brokers), ini=f"kafka_cluster_scope = {scope}")
    result.assert_outcomes(passed=5, failed=1)
    assert "version is '1.1.1', but other tests share the cluster" in result.stdout.str()


@pytest.mark.parametrize("ini", ["kafka_cluster_scope = funktion", "kafka_handler = asyncio"])
def test_options_are_checked(run: Run, ini: str) -> None:
    result = run("def test_it(): pass", ini=ini)
    name, _, value = ini.partition(" = ")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"{name} is {value!r}: one of" in result.stderr.str()


ASYNC = """
import asyncio

import pytest

from pykafka.aio import KafkaClient

{fixtures}

clients = []


{mark}
async def test_client(kafka_aio_client, kafka_topic, assert_delivered, consume_all):
    clients.append((kafka_aio_client, asyncio.get_running_loop()))
    async with kafka_aio_client.producer() as producer, kafka_aio_client.consumer(kafka_topic) as consumer:
        await producer.produce(kafka_topic, b"1")
        await asyncio.to_thread(assert_delivered, kafka_topic, ["1"])
        assert (await consumer.one(timeout=10)).value == b"1"
        assert len(consume_all(kafka_topic)) == 1


class TestMethods:
    {mark}
    @pytest.mark.parametrize("value", [b"a", b"b"])
    async def test_each_has_a_loop_of_its_own(self, value, kafka_aio_client, kafka_topic):
        assert all(client is not kafka_aio_client and loop.is_closed() for client, loop in clients)
        clients.append((kafka_aio_client, asyncio.get_running_loop()))
        delivery = await (await kafka_aio_client.producer()).produce(kafka_topic, value)
        assert (await delivery).value == value


{mark}
async def test_of_a_service(service, kafka_topic, assert_delivered):
    await service(kafka_topic, b"1")
    await asyncio.to_thread(assert_delivered, kafka_topic, ["1"])


{mark}
async def test_that_fails(kafka_aio_client):
    raise ValueError("as it should")


def test_without_a_runner(kafka_aio_client, kafka_topic, assert_delivered):
    async def main():
        async with kafka_aio_client, kafka_aio_client.producer() as producer:
            await (await producer.produce(kafka_topic, b"1"))

    asyncio.run(main())
    assert_delivered(kafka_topic, ["1"])


def test_that_does_not_use_it(kafka_aio_client):
    pass
"""
SERVICE = """
async def service(kafka_aio_client):
    await kafka_aio_client
    async with kafka_aio_client.producer() as producer:
        async def send(topic, value):
            await (await producer.produce(topic, value))

        yield send
"""


@pytest.mark.parametrize(
    ("mark", "fixture", "options"),
    [
        ("@pytest.mark.asyncio", "@pytest_asyncio.fixture", ["-o", "asyncio_mode=strict"]),
        ("", "@pytest.fixture", ["-o", "asyncio_mode=auto"]),
        ("@pytest.mark.anyio", "@pytest.fixture", []),
    ],
    ids=["pytest-asyncio-strict", "pytest-asyncio-auto", "anyio"],
)
def test_asyncio(run: Run, mark: str, fixture: str, options: list[str]) -> None:
    fixtures = f"{'import pytest_asyncio' if 'pytest_asyncio' in fixture else ''}\n\n{fixture}{SERVICE}"
    result = run(ASYNC.format(mark=mark, fixtures=fixtures), *options, "-W", "error::ResourceWarning")
    result.assert_outcomes(passed=6, failed=1)
    assert "ValueError: as it should" in result.stdout.str()


ON_A_REAL_CLUSTER = """
import pytest


@pytest.mark.kafka(topics={"orders-of-the-plugin": 2}, partitions=3, handler="gevent")
def test_on_both(kafka_client, kafka_topic, kafka_cluster, assert_delivered, consume_all):
    for topic in "orders-of-the-plugin", kafka_topic:
        kafka_client.producer().produce(topic, b"1")
        assert_delivered(topic, ["1"])
        assert consume_all(topic)[0].topic == topic


@pytest.mark.kafka(faults=[("stop", 1)])
def test_faults(kafka_topic): pass

@pytest.mark.kafka(version="2.8.2")
def test_version(kafka_topic): pass

@pytest.mark.kafka(config={"group.max.size": 1})
def test_config(kafka_topic): pass

def test_control(kafka_cluster):
    kafka_cluster.fail("Produce", "NONE")

def test_clock(kafka_clock):
    kafka_clock.advance(1)

def test_misspelt(kafka_cluster):
    with pytest.raises(AttributeError):
        kafka_cluster.fial
"""
SKIPPED = [
    *(f"needs the fake cluster for kafka({name}=...), and runs on" for name in ("faults", "version", "config")),
    *(f"uses kafka_cluster.{name}, which the real cluster" for name in ("fail", "advance")),
]


def check_on_a_real_cluster(run: Run, hosts: str) -> None:
    result = run(ON_A_REAL_CLUSTER, "--kafka-hosts", hosts, "-rs")
    result.assert_outcomes(passed=2, skipped=5)
    assert [reason for reason in SKIPPED if reason not in result.stdout.str()] == []


def test_a_cluster_that_is_known_by_its_address(run: Run) -> None:
    with FakeCluster(brokers=1) as cluster:
        cluster.create_topic("theirs")
        check_on_a_real_cluster(run, cluster.hosts)
        assert [name for name in cluster._state.topics if not name.startswith("__")] == ["theirs"]


def test_a_real_cluster(run: Run, kafka: KafkaCluster) -> None:
    check_on_a_real_cluster(run, kafka.hosts)
    with KafkaClient(kafka.hosts) as client, pytest.raises(UnknownTopicOrPartition):
        client.admin.describe_topics(["orders-of-the-plugin"])


def test_unittest(run: Run) -> None:
    result = run(
        """
        import unittest

        import pytest


        @pytest.mark.kafka(topics={"t": 1}, faults=[("fail", "Produce", "NOT_LEADER_OR_FOLLOWER")])
        class TestOrders(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _kafka(self, kafka_client, assert_delivered):
                self.client, self.assert_delivered = kafka_client, assert_delivered

            def test_it(self):
                self.client.producer().produce("t", b"1").get(timeout=10)
                self.assert_delivered("t", ["1"])
        """
    )
    result.assert_outcomes(passed=1)


def test_other_clients(run: Run) -> None:
    result = run(
        """
        import asyncio

        import aiokafka
        import confluent_kafka
        import kafka
        import pytest

        pytestmark = pytest.mark.kafka(topics={"t": 1})


        def test_confluent_kafka(kafka_cluster, assert_delivered):
            producer = confluent_kafka.Producer({"bootstrap.servers": kafka_cluster.hosts})
            producer.produce("t", b"1")
            assert producer.flush(20) == 0
            assert_delivered("t", ["1"])


        def test_kafka_python(kafka_cluster, assert_delivered):
            producer = kafka.KafkaProducer(bootstrap_servers=kafka_cluster.hosts.split(","))
            producer.send("t", b"1")
            assert_delivered("t", ["1"])
            producer.close()


        def test_aiokafka(kafka_cluster, assert_delivered):
            async def main():
                async with aiokafka.AIOKafkaProducer(bootstrap_servers=kafka_cluster.hosts) as producer:
                    await producer.send("t", b"1")
                    await asyncio.to_thread(assert_delivered, "t", ["1"])

            asyncio.run(main())
        """
    )
    result.assert_outcomes(passed=3)


def test_it_can_be_left_out(run: Run) -> None:
    result = run("def test_it(kafka_cluster): pass", "-p", "no:pykafka")
    result.assert_outcomes(errors=1)
    assert "fixture 'kafka_cluster' not found" in result.stdout.str()


def test_help(run: Run) -> None:
    output = run("", "--help").stdout.str() + run("", "--markers").stdout.str() + run("", "--fixtures").stdout.str()
    fixtures = ["kafka_cluster -- ", "kafka_client -- ", "kafka_aio_client -- ", "kafka_topic -- ", "kafka_clock -- "]
    told = ["--kafka-hosts", "kafka_cluster_scope", "kafka_handler", "@pytest.mark.kafka(version=", *fixtures]
    assert [text for text in told if text not in output] == []


@pytest.mark.parametrize(
    ("loaded", "absent"),
    [
        ("pykafka.testing.plugin", ["pykafka.client", "pykafka.handlers", "pykafka.testing.fakecluster"]),
        ("pykafka.testing.fakecluster", ["pytest", "_pytest", "pykafka.testing.plugin"]),
        ("pykafka.client", ["pytest", "_pytest", "pykafka.testing"]),
    ],
)
def test_what_is_not_used_is_not_loaded(loaded: str, absent: list[str]) -> None:
    script = f"import sys, json, {loaded}\nprint(json.dumps([name for name in {absent} if name in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == []
