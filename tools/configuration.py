"""Write docs/configuration.md: every option of clients, producers and consumers, from their settings and constructors.

    python tools/configuration.py

Defaults come from the constructors, meanings from their docstrings (tests hold both to the settings), and what is allowed and
what it costs from the settings, or from the tables below.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pykafka
from pykafka import (
    BalancedConsumer,
    KafkaClient,
    KafkaConsumer,
    KafkaProducer,
    ManagedBalancedConsumer,
    Producer,
    ShareConsumer,
    SimpleConsumer,
)
from pykafka.compat.options import GroupOptions, ZooKeeperOptions
from pykafka.consumer.options import ConsumerOptions, KafkaConsumerOptions
from pykafka.groups.options import MemberOptions, SubscriberOptions
from pykafka.metadata.options import MetadataSettings
from pykafka.network.options import ConnectionSettings
from pykafka.parallel.options import ParallelOptions
from pykafka.producer.options import KafkaProducerOptions, ProducerOptions
from pykafka.sharegroups.options import ShareConsumerOptions
from pykafka.utils import INT64_MAX
from pykafka.utils.option_table import Settings, above_0, at_least_0, up_to

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
#: What these checks take.
ALLOWED: dict[Any, str] = {above_0: "1 or more", at_least_0: "0 or more"}
#: Parameters that are no options: which cluster, which topic, and what only the client itself passes on.
NO_OPTIONS = {"cluster", "topic", "topics", "generation_id", "consumer_id", "zookeeper", "use_rdkafka"}
#: Parameters that have no settings of their own: name -> (allowed, costs).
OTHERS = {
    "buffer_memory": (
        f"None, 1 to {INT64_MAX}",
        "A small budget makes `produce()` wait. Without one a program with many producers takes as much as they together.",
    ),
    "hosts": ("", "Name two or three brokers: a client that starts needs one of them to be up."),
    "zookeeper_hosts": ("", "Needs ZooKeeper; `hosts` needs brokers only."),
    "socket_timeout_ms": (
        "1 or more",
        "A short time notices a silent broker sooner, and takes a slow one for dead. The end of a consumer may take as long.",
    ),
    "offsets_channel_socket_timeout_ms": ("1 or more", "As `socket_timeout_ms`."),
    "use_greenlets": ("", "Needs the extra `gevent`. [Greenlets and forks](greenlets.md) says when to use it."),
    "exclude_internal_topics": ("", "False shows `__consumer_offsets` and the like."),
    "client_rack": ("", "Less traffic between zones. A replica has messages a little later than the leader."),
    "allow_auto_create_topics": ("", "True makes a topic of a misspelt name, where brokers allow that."),
    "partitioner": (
        "`RandomPartitioner()`, `Murmur2Partitioner()`, `HashingPartitioner()`, ... or a function",
        "The default sends messages of one key to all partitions, so they lose their order. Any other is a call of Python for "
        "each message.",
    ),
    "key_serializer": ("", "A call of Python for each message."),
    "value_serializer": ("", "As `key_serializer`."),
    "listener": (
        "an object with some of `on_revoked(partitions)`, `on_assigned(partitions)`, `on_lost(partitions)`",
        "Its calls hold up the call that reads, and the rebalance.",
    ),
    "partitions": ("", "Partitions that are added to the topic later are not read."),
    "deserializer": ("", "A call of Python for each message; `consume_arrow()` is refused."),
    "dead_letters": (
        "None, the name of a topic, `DeadLetters(...)`",
        "None ends the run at the first record that fails for good; with it your code has to look at that topic.",
    ),
}
HEAD = """\
# Configuration

Every option, with its default. Options are keyword arguments: of `KafkaClient(...)`, `client.producer(...)`,
`client.consumer(...)`, `consumer.parallel(...)`, `topic.get_producer(...)`, `topic.get_simple_consumer(...)` and
`topic.get_balanced_consumer(...)`. A name that does not exist, and a value that is not allowed, are refused by name; but
options for True or False that PyKafka 2.8 has take any value as true or false, as they do there.
`use_rdkafka=True` has librdkafka do the work (extra `rdkafka`), for producers and consumers of one topic.
[Spark's options](spark.md#options) and [pipelines](pipeline.md#the-file) have tables of their own.

<!-- Made by `python tools/configuration.py` from the settings in pykafka/*/options.py; edit those. -->
"""
PRODUCER = "Three defaults are rarely what a new program wants: `partitioner`, `required_acks` and `linger_ms`."


class Section(NamedTuple):
    """A table of the page.

    :param title: its heading
    :param text: what stands above the table
    :param cls: the class or function that has the parameters
    :param kinds: their settings
    :param wanted: tells which parameters belong here
    """

    title: str
    text: str
    cls: Callable[..., Any]
    kinds: tuple[type[Settings], ...]
    wanted: Callable[[str], bool]


def names(*kinds: type[Settings]) -> set[str]:
    """Return the names of settings."""
    return {one.name for kind in kinds for one in fields(kind)}


def sections() -> Iterator[Section]:
    """Yield the tables, in the order of the page."""
    consumer = set(inspect.signature(SimpleConsumer).parameters)
    members = names(GroupOptions) - names(ConsumerOptions)
    yield Section(
        "Clients", "Of `KafkaClient`.", KafkaClient, (ConnectionSettings, MetadataSettings), lambda name: True
    )
    yield Section(
        "Producers for any topic",
        "Of `client.producer`. [Any topic](any-topic.md) shows it.",
        KafkaProducer,
        (KafkaProducerOptions,),
        lambda name: True,
    )
    yield Section(
        "Consumers of any topic",
        "Of `client.consumer`. [Any topic](any-topic.md#consume) shows it. `session_timeout_ms` to `group_instance_id` are for "
        "members of a group.",
        KafkaConsumer,
        (SubscriberOptions, KafkaConsumerOptions),
        lambda name: True,
    )
    yield Section(
        "Consumers of a share group",
        "Of `client.share_consumer`. [Share groups](share-groups.md) shows it.",
        ShareConsumer,
        (ShareConsumerOptions,),
        lambda name: True,
    )
    yield Section(
        "Parallel work",
        "Of `consumer.parallel`. [Work in parallel](parallel.md) shows it.",
        KafkaConsumer.parallel,
        (ParallelOptions,),
        lambda name: name not in {"self", "handle"},
    )
    yield Section(
        "Producers",
        f"Of `get_producer` and `get_sync_producer`. {PRODUCER}",
        Producer,
        (ProducerOptions,),
        lambda name: True,
    )
    yield Section(
        "Consumers",
        "Of `get_simple_consumer`, and of `get_balanced_consumer`, but for `partitions`.",
        SimpleConsumer,
        (ConsumerOptions,),
        lambda name: True,
    )
    yield Section(
        "Consumers of a group",
        "Of `get_balanced_consumer`, in addition. `consumer_group` is required there.",
        BalancedConsumer,
        (GroupOptions,),
        lambda name: name in members,
    )
    yield Section(
        "Groups that the brokers keep",
        "Of `get_balanced_consumer(managed=True)`, in addition.",
        ManagedBalancedConsumer,
        (MemberOptions,),
        lambda name: name not in consumer | members,
    )
    yield Section(
        "Groups in ZooKeeper",
        "Of `get_balanced_consumer(managed=False)`, the default, in addition.",
        BalancedConsumer,
        (ZooKeeperOptions,),
        lambda name: name not in consumer | members,
    )


def documented(cls: Callable[..., Any]) -> dict[str, str]:
    """Return the meanings of the parameters of a class or function."""
    text = inspect.getdoc(cls) or ""
    found = re.findall(r"^:param (\w+): (.*?)(?=^:|\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: " ".join(meaning.split()) for name, meaning in found}


def unit(name: str) -> str:
    """Return what a number of an option counts."""
    if name.endswith("_ms"):
        return " ms"
    if name.endswith("_bytes") or name in {"max_request_size", "buffer_memory"}:
        return " bytes"
    return " messages" if name.endswith("_messages") else ""


def shown(parameter: inspect.Parameter) -> str:
    """Return how the page writes a default."""
    default = parameter.default
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return ""
    if default is inspect.Parameter.empty:
        return "required"
    if isinstance(default, enum.Enum):
        return f"`{type(default).__name__}.{default.name}`"
    if isinstance(default, bool) or default is None or default == -1:
        return str(default)
    if default == ():
        return "none"
    if isinstance(default, int):
        counted = unit(parameter.name)
        return f"{default}{counted.removesuffix('s') if default == 1 else counted}"
    if default == ():
        return "none"
    if isinstance(default, str):
        return f'`"{default}"`'
    if isinstance(default, float):
        return f"{default:g} s"
    return next(f"`{name}`" for name in pykafka.__all__ if getattr(pykafka, name) is default)


def allowed(parameter: inspect.Parameter, metadata: dict[str, Any]) -> str:
    """Return which values an option takes; nothing where its meaning says it."""
    if metadata.get("allowed"):
        return str(metadata["allowed"])
    if isinstance(parameter.default, bool):
        return "True, False"
    check = metadata.get("check")
    if isinstance(check, partial) and check.func is up_to:
        highest, lower = check.args
        return ALLOWED[lower].replace("or more", f"to {highest}")
    return ALLOWED.get(check, "")


def rows(section: Section) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the cells of a table."""
    settings = {one.name: dict(one.metadata) for kind in section.kinds for one in fields(kind)}
    meanings = documented(section.cls)
    for name, parameter in inspect.signature(section.cls).parameters.items():
        if name in NO_OPTIONS or not section.wanted(name) or is_for_old_code(meanings[name]):
            continue
        values, costs = OTHERS.get(name, ("", ""))
        if section.cls is KafkaProducer and name == "partitioner":
            values, costs = "a function", "Any but None is a call of Python for each message."
        metadata = settings.get(name, {"allowed": values, "costs": costs, "meaning": meanings[name]})
        yield f"`{name}`", shown(parameter), allowed(parameter, metadata), metadata["meaning"], metadata["costs"]


def is_for_old_code(meaning: str) -> bool:
    """Tell whether a parameter is taken and means nothing."""
    return meaning.startswith("accepted for old code")


def old(cls: type[Any]) -> str:
    """Return the parameters of a class that are taken and mean nothing."""
    return ", ".join(f"`{name}`" for name, meaning in documented(cls).items() if is_for_old_code(meaning))


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for section in sections():
        parts.append(f"## {section.title}\n\n{section.text}\n")
        table = [("option", "default", "allowed", "meaning", "what it costs, or trades"), ("---",) * 5, *rows(section)]
        cells = (tuple(cell.replace("|", "\\|") for cell in row) for row in table)
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in cells) + "\n")
    gone = [
        f"{cls.__name__}: {old(cls)}" for cls in (KafkaClient, Producer, SimpleConsumer, BalancedConsumer) if old(cls)
    ]
    parts.append(f"## Accepted without effect\n\nFor code written for PyKafka 2. {'. '.join(gone)}.\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"docs/{PAGE.name}: {sum(1 for section in sections() for _ in rows(section))} options")
