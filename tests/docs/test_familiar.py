"""The names in docs/names-of-other-clients.md's table of other clients' names exist; errors name our options for theirs."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pytest

import pykafka
import pykafka.aio
from pykafka import (
    BalancedConsumer,
    Delivery,
    KafkaClient,
    KafkaConsumer,
    KafkaProducer,
    ManagedBalancedConsumer,
    Producer,
    Record,
    ShareConsumer,
    SimpleConsumer,
)
from pykafka.admin import Admin
from pykafka.consumer.options import KafkaConsumerOptions
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import ConsumerStoppedException, KafkaException, ProducerStoppedException
from pykafka.groups.options import SubscriberOptions
from pykafka.producer.options import KafkaProducerOptions
from pykafka.sharegroups.options import ShareConsumerOptions
from pykafka.utils.hints import ARGUMENTS, AWAITED, CLIENT, CONSUMER, METHODS, POLL, PRODUCE, PRODUCER
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "names-of-other-clients.md").read_text()
HOMES: dict[str, Any] = {
    "KafkaClient": KafkaClient,
    "client": KafkaClient,
    "producer": KafkaProducer,
    "consumer": KafkaConsumer,
    "share consumer": ShareConsumer,
    "delivery": Delivery,
    "record": Record,
    "admin": Admin,
}
OPTIONS = {
    name
    for made in (
        KafkaClient,
        KafkaProducer,
        KafkaConsumer,
        ShareConsumer,
        KafkaProducer.produce,
        KafkaConsumer.poll,
        KafkaConsumer.commit_async,
    )
    for name in inspect.signature(made).parameters
}


def first_cells() -> list[str]:
    table = PAGE[PAGE.index("| here |") :]
    return re.findall(r"^\| (.+?) \|", table, re.MULTILINE)[2:]


@pytest.mark.parametrize("cell", first_cells())
def test_names_of_the_table_exist(cell: str) -> None:
    for home, name in re.findall(r"\b(KafkaClient|client|producer|consumer|delivery|record|admin)\.(\w+)", cell):
        assert hasattr(HOMES[home], name), f"{home}.{name}"
    assert set(re.findall(r"\b(\w+)=", cell)) <= OPTIONS
    for name in re.findall(r"`(on_\w+)`", cell):
        assert name in {"on_revoked", "on_assigned", "on_lost", "on_delivery"}


#: The pages for those who come from another client.
COME_FROM = ["from-confluent-kafka.md", "from-kafka-python.md", "from-aiokafka.md"]


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its head."""
    text = (ROOT / "docs" / page).read_text()
    section = text[text.index(f"## {heading}\n") :].split("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in re.findall(r"^\|.*\|$", section, re.MULTILINE)[2:]]


@pytest.mark.parametrize("page", COME_FROM)
def test_names_of_the_pages_for_other_clients_exist(page: str) -> None:
    table = rows(page, "Names")
    assert len(table) > 20
    for theirs, ours, *_ in table:
        spans = " ".join(span for span in re.findall(r"`([^`]+)`", ours) if ours != "the same")
        assert unknown_names(spans.replace("max_records)", ")")) <= {"AvroSerializer"}, (theirs, ours)


@pytest.mark.parametrize("page", COME_FROM)
def test_defaults_of_the_pages_for_other_clients_are_ours(page: str) -> None:
    ours = {
        row.name: row.default
        for table in (KafkaConsumerOptions, SubscriberOptions, KafkaProducerOptions)
        for row in table.rows()
    }
    table = {cells[0]: cells[-1] for cells in rows(page, "Defaults that differ")}
    assert f"{ours['session_timeout_ms'] // 1000} s (`session_timeout_ms`)" in table["session of a member"]
    assert '"earliest"' in table["where a group without a commit begins"]
    assert ours["auto_offset_reset"] == "earliest"
    assert table["commits"].startswith("none")
    assert ours["auto_commit"] is False
    for subject, seconds in table.items():
        if "tried" in subject:
            assert seconds == f"{ours['delivery_timeout_ms'] // 1000} s (`delivery_timeout_ms`)"
        if "lone message" in subject:
            assert f"after {ours['linger_ms']} ms" in seconds


@pytest.mark.filterwarnings("ignore:.*_text is deprecated")  # by an import of kafka-python
def test_defaults_of_other_clients_are_theirs() -> None:
    consumer, producer = kafka_python()
    assert (consumer["auto_offset_reset"], consumer["enable_auto_commit"]) == ("latest", True)
    assert (consumer["session_timeout_ms"], producer["linger_ms"], producer["delivery_timeout_ms"]) == (
        45000,
        0,
        120000,
    )
    aiokafka = import_module("aiokafka")
    theirs = {
        name: parameter.default
        for cls in (aiokafka.AIOKafkaConsumer, aiokafka.AIOKafkaProducer)
        for name, parameter in inspect.signature(cls).parameters.items()
    }
    assert (theirs["auto_offset_reset"], theirs["enable_auto_commit"]) == ("latest", True)
    assert (theirs["session_timeout_ms"], theirs["linger_ms"], theirs["request_timeout_ms"]) == (10000, 0, 40000)
    assert theirs["enable_idempotence"] is False
    assert [one.name for one in theirs["partition_assignment_strategy"]] == ["roundrobin"]


def kafka_python() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the default options of its consumer and its producer."""
    module = import_module("kafka")
    return module.KafkaConsumer.DEFAULT_CONFIG, module.KafkaProducer.DEFAULT_CONFIG


def test_the_table_is_long() -> None:
    assert len(first_cells()) > 25


CONSUMERS = KafkaConsumerOptions.elsewhere() | SubscriberOptions.elsewhere() | CONSUMER


@pytest.mark.parametrize(
    ("meant", "made"),
    [
        (KafkaProducerOptions.elsewhere() | PRODUCER, KafkaProducer),
        (CONSUMERS, KafkaConsumer),
        (ShareConsumerOptions.elsewhere(), ShareConsumer),
        (CLIENT, KafkaClient),
    ],
    ids=["producer", "consumer", "share consumer", "client"],
)
def test_familiar_names_lead_to_options(meant: dict[str, str], made: Any) -> None:
    known = inspect.signature(made).parameters.keys()
    for name, ours in meant.items():
        assert name not in known or name in {"topics", "cluster"}, name
        assert not unknown_names(ours, known), (name, ours)


def unknown_names(hint: str, known: Iterable[str] = ()) -> set[str]:
    """Return the options and calls of a hint that do not exist.

    :param known: what the hint may begin with, besides calls
    """
    members = {name for home in HOMES.values() for name in dir(home) if hasattr(home, name)}
    members |= {"KafkaClient", "TopicPartition", "Plain", "on_lost", "on_revoked", "on_assigned", "on_commit"}
    found = {name for name in re.findall(r"\b(\w+)=", hint) if name not in OPTIONS}
    found |= {name for name in re.findall(r"\b(\w+)\(", hint) if name not in {*members, *OPTIONS}}
    if known and not hint.startswith(":") and (first := re.match(r"\w*", hint)) and first[0]:
        found |= {first[0]} - {*known, *members}
    return found


HINTS = [
    *(("methods", cls, name, ours) for cls, meant in METHODS.items() for name, ours in meant.items()),
    *(
        (method, cls, name, ours)
        for cls, methods in ARGUMENTS.items()
        for method, meant in methods.items()
        for name, ours in meant.items()
    ),
    *(("produce", "KafkaProducer", name, ours) for name, ours in PRODUCE.items()),
    *(("poll", "KafkaConsumer", name, ours) for name, ours in POLL.items()),
    *(("coroutines", "KafkaConsumer", name, ours) for name, ours in AWAITED.items()),
]


@pytest.mark.parametrize(("what", "cls", "name", "ours"), HINTS)
def test_hints_name_what_exists(what: str, cls: str, name: str, ours: str) -> None:
    assert unknown_names(ours) == set()
    if hasattr(getattr(pykafka, cls), what):  # an argument of a method
        parameter = inspect.signature(getattr(getattr(pykafka, cls), what)).parameters.get(name)
        assert parameter is None or parameter.kind is inspect.Parameter.VAR_POSITIONAL


#: Public methods of other clients that no program calls: parts of their own machines.
INTERNAL = {"bootstrap", "max_usable_produce_magic"}


@pytest.mark.filterwarnings("ignore:.*_text is deprecated")  # by an import of kafka-python
@pytest.mark.parametrize(
    ("module", "theirs", "ours"),
    [
        ("confluent_kafka", "Producer", KafkaProducer),
        ("confluent_kafka", "Consumer", KafkaConsumer),
        ("confluent_kafka", "ShareConsumer", ShareConsumer),
        ("kafka", "KafkaProducer", KafkaProducer),
        ("kafka", "KafkaConsumer", KafkaConsumer),
        ("aiokafka", "AIOKafkaProducer", pykafka.aio.KafkaProducer),
        ("aiokafka", "AIOKafkaConsumer", pykafka.aio.KafkaConsumer),
    ],
)
def test_each_method_of_other_clients_is_known(module: str, theirs: str, ours: type[Any]) -> None:
    members = dir(getattr(import_module(module), theirs))
    methods = {name for name in members if name == name.lower() and not name.startswith("_")} - INTERNAL
    assert {name for name in methods if not hasattr(ours, name) and name not in METHODS[ours.__name__]} == set()


MADE = 'write KafkaClient("HOST:PORT").'
CONSUMER_MADE = f'{MADE}consumer("TOPIC", group="GROUP")'
SERVERS: dict[str, Any] = {"bootstrap_servers": "h:1"}
HOSTS = "bootstrap_servers is hosts, an option of KafkaClient"
FIRST_CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (KafkaConsumer, ("a",), {}, f"a client makes a KafkaConsumer: {CONSUMER_MADE}"),
    (KafkaConsumer, (), {**SERVERS, "group_id": "g"}, f"{CONSUMER_MADE}; {HOSTS}; group_id is group here"),
    (KafkaConsumer, ("a",), {**SERVERS, "enable_auto_commit": True}, "enable_auto_commit is auto_commit here"),
    (KafkaConsumer, ({"group.id": "g"},), {}, "write KafkaClient.from_config(...).consumer("),
    (KafkaProducer, (), SERVERS, f"{MADE}producer(); {HOSTS}"),
    (KafkaProducer, (), {**SERVERS, "retries": 3, "acks": "all"}, "retries is max_retries here"),
    (Producer, ({"bootstrap.servers": "h:1"},), {}, "write KafkaClient.from_config(...).producer(), or topics"),
    (ShareConsumer, ("a",), {"group_id": "g"}, f'{MADE}share_consumer("TOPIC", group="GROUP"); group_id is group here'),
    (SimpleConsumer, ("a",), {}, f'{MADE}topics["TOPIC"].get_simple_consumer()'),
    (BalancedConsumer, ("a", "h:1", "g"), {}, f'{MADE}topics["TOPIC"].get_balanced_consumer("GROUP")'),
    (ManagedBalancedConsumer, ("a", "h:1", "g"), {}, 'get_balanced_consumer("GROUP", managed=True)'),
    (KafkaClient, ({"bootstrap.servers": "h:1"},), {}, "KafkaClient.from_config(...) takes a configuration"),
    (KafkaClient, ("h:1",), {"group_id": "g"}, "group_id is consumer(group=) here"),
    (KafkaClient, ("h:1",), {"enable_auto_commit": True}, "enable_auto_commit is consumer(auto_commit=) here"),
    (KafkaClient, ("h:1",), {"linger_ms": 5}, "linger_ms is producer(linger_ms=) here"),
    (KafkaClient, (), {"bootstrap.servers": "h:1"}, "bootstrap.servers is hosts here"),
    (KafkaClient, (), {"conf": {}}, "conf: write KafkaClient.from_config({...})"),
    (
        pykafka.aio.KafkaClient,
        ({"bootstrap.servers": "h:1"},),
        {},
        "KafkaClient.from_config(...) takes a configuration",
    ),
    (pykafka.aio.KafkaClient, ("h:1",), {"loop": None}, "loop: pykafka.aio takes the loop that runs"),
    (pykafka.aio.KafkaConsumer, ("a",), {**SERVERS, "group_id": "g"}, f"{CONSUMER_MADE}; {HOSTS}"),
    (pykafka.aio.KafkaProducer, (), SERVERS, f"{MADE}producer(); {HOSTS}"),
]


@pytest.mark.parametrize(("cls", "args", "given", "expected"), FIRST_CALLS)
def test_first_calls_of_other_clients_say_what_to_write(
    cls: Any, args: tuple[Any, ...], given: dict[str, Any], expected: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(expected)):
        made = cls(*args, **given)
        asyncio.run(made.__aenter__())  # a client of coroutines connects when it is entered


@pytest.mark.parametrize("cls", [KafkaConsumer, KafkaProducer, Producer, KafkaClient])
def test_the_errors_about_configurations_hide_secrets(cls: Any) -> None:
    with pytest.raises(TypeError) as caught:
        cls({"bootstrap.servers": "h:1", "sasl.password": "swordfish"})
    assert "swordfish" not in str(caught.value)


@pytest.mark.parametrize("module", ["pykafka", "pykafka.aio"])
@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("Consumer", 'KafkaClient(...).consumer("TOPIC", group="GROUP")'),
        ("KafkaAdminClient", "KafkaClient(...).admin"),
        ("AIOKafkaProducer", "KafkaClient(...).producer()"),
        ("ConsumerRebalanceListener", "RebalanceListener"),
        ("KafkaError", "KafkaException"),
    ],
)
def test_classes_of_other_clients_are_not_imported(module: str, name: str, instead: str) -> None:
    with pytest.raises(ImportError, match=re.escape(f"{module} has no {name}: write {instead}")):
        exec(f"from {module} import {name}")


def test_errors_say_what_to_write() -> None:
    with EmbeddedCluster(brokers=1, topics={"a": 1}) as cluster, KafkaClient(cluster.hosts) as client:
        given: dict[str, Any]
        for given, expected in (
            ({"required_acks": 1}, "required_acks is acks here"),
            ({"client_id": "me"}, "client_id is an option of KafkaClient"),
            ({"lingerms": 1}, "did you mean linger_ms?"),
        ):
            with pytest.raises(TypeError, match=re.escape(expected)):
                client.producer(**given)
        for given, expected in (
            ({"group_protocol": "consumer"}, "group_protocol is protocol here"),
            ({"cluster": None}, "no option cluster"),
        ):
            with pytest.raises(TypeError, match=re.escape(expected)):
                client.consumer("a", **given)
        names: Any = ["a"]
        with pytest.raises(TypeError, match=re.escape("consumer(*names)")):
            client.consumer(names)
        wrong: dict[str, Any] = {"bootstrap_servers": cluster.hosts}
        with pytest.raises(TypeError, match="bootstrap_servers is hosts here"):
            KafkaClient(**wrong)
        acks: Any = 2
        with pytest.raises(ValueError, match='acks must be "all"'):
            client.producer(acks=acks)
        producer, consumer = client.producer(), client.consumer("a")
        for name, ours in (("getone", "one()"), ("consume", "poll(")):
            with pytest.raises(AttributeError, match=re.escape(ours)):
                getattr(consumer, name)
        with pytest.raises(AttributeError, match=re.escape("KafkaProducer has no send(); it is produce() here")):
            getattr(producer, "send")  # noqa: B009 - type checkers know that there is none
        with pytest.raises(KafkaException, match="group="):
            consumer.commit()
        text: Any = "text"
        with pytest.raises(TypeError, match="value_serializer="):
            producer.produce("a", text)
        with pytest.raises(TypeError, match="key_serializer="):
            producer.produce("a", b"1", key=text)
        producer.close()
        consumer.close()
        with pytest.raises(ProducerStoppedException, match="make another$"):
            producer.produce("a", b"1")
        with pytest.raises(ConsumerStoppedException, match="make another"):
            consumer.one(1)


@pytest.mark.parametrize(
    ("cls", "name", "expected"),
    [
        (KafkaProducer, "send", "KafkaProducer has no send(); it is produce() here"),
        (KafkaProducer, "poll", "KafkaProducer has no poll(), and needs none: a worker calls on_delivery"),
        (KafkaProducer, "send_offsets_to_transaction", "send_offsets(consumer)"),
        (KafkaConsumer, "stop", "close()"),
        (Record, "error", "Record has no error(): a call that reads raises errors, and a record has none"),
        (Delivery, "add_callback", "Delivery has no add_callback(): write produce(..., on_delivery=function)"),
        (Delivery, "exception", "it is the attribute error here"),
        (Delivery, "result", "it is get(timeout) here"),
        (ShareConsumer, "acknowledge", "accept(record), release(record) or reject(record)"),
        (pykafka.aio.ShareConsumer, "commit_sync", "commit()"),
        (KafkaConsumer, "get_watermark_offsets", "client.admin.list_offsets(...)"),
        (pykafka.aio.KafkaProducer, "send_and_wait", "it is await (await produce()) here"),
        (pykafka.aio.KafkaProducer, "start", "has no start(), and needs none: it has started when it is made"),
        (pykafka.aio.KafkaConsumer, "getone", "it is await one() here"),
        (pykafka.aio.KafkaConsumer, "getmany", "it is await poll() here"),
    ],
)
def test_methods_of_other_clients_say_what_to_write(cls: Any, name: str, expected: str) -> None:
    assert not hasattr(cls, name)
    with pytest.raises(AttributeError, match=re.escape(expected)):
        getattr(cls, name)


def test_lists_serve_where_other_clients_take_them() -> None:
    with EmbeddedCluster(brokers=1, topics={"a": 1, "b": 1}) as cluster:
        hosts = cluster.hosts.split(",")
        with KafkaClient(hosts) as client, KafkaClient.from_config({}, hosts=hosts) as other:
            assert sorted(client.topics) == sorted(other.topics)
            with client.consumer() as consumer:
                consumer.subscribe(["a", "b"])
                assert consumer.subscription() == ["a", "b"]
                names: Any = [["a"]]
                with pytest.raises(TypeError, match="must be names"):
                    consumer.subscribe(names)
        wrong: Any = [("localhost", 9092)]
        with pytest.raises(TypeError, match="a list of 'host:port'"):
            KafkaClient(wrong)
