"""Hints in errors: a name that a user may have misspelt, or has from another client, and what to write here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeVar

#: From how many letters on a name with one slip, or two, is taken for the same name.
ONE_SLIP_FROM, TWO_SLIPS_FROM = 3, 12
#: Separators that users mix up.
_SEPARATORS = str.maketrans("-.", "__")
#: Numbers distinguish the names of a series: "orders-2" is not a misspelt "orders-1".
_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")

#: Options of another client that are not one option here; `Options.elsewhere` has options of another name.
PRODUCER = {
    "callback": "on_delivery",
    "delivery_report": "on_delivery",
    "dr_cb": "on_delivery",
    "on_delivery_cb": "on_delivery",
    "queue_buffering_max_messages": "buffer_memory",
    "request_timeout_ms": "delivery_timeout_ms, or KafkaClient(socket_timeout_ms=)",
    "serializer": "key_serializer and value_serializer",
}
#: Likewise of consumers.
CONSUMER = {
    "deserializer": "key_deserializer and value_deserializer",
    "max_poll_records": "poll(max_records)",
    "partitions": "assign()",
    "topics": "consumer(*topics)",
}
#: Options of clients.
CLIENT = {
    "api_version": "broker_version, which you need not give",
    "bootstrap_servers": "hosts",
    "brokers": "hosts",
    "group_id": "consumer(group=)",
    "request_timeout_ms": "socket_timeout_ms",
    "servers": "hosts",
}
#: How a client makes what programs of other clients make themselves: {class: call}.
MADE = {
    "KafkaConsumer": 'consumer("TOPIC", group="GROUP")',
    "KafkaProducer": "producer()",
    "ShareConsumer": 'share_consumer("TOPIC", group="GROUP")',
    "Producer": 'producer(), or topics["TOPIC"].get_producer()',
    "SimpleConsumer": 'topics["TOPIC"].get_simple_consumer()',
    "BalancedConsumer": 'topics["TOPIC"].get_balanced_consumer("GROUP")',
    "ManagedBalancedConsumer": 'topics["TOPIC"].get_balanced_consumer("GROUP", managed=True)',
    "RdKafkaProducer": 'topics["TOPIC"].get_producer(use_rdkafka=True)',
    "RdKafkaSimpleConsumer": 'topics["TOPIC"].get_simple_consumer(use_rdkafka=True)',
}
#: Classes of other clients: {name: what to write instead}.
CLASSES = {
    **dict.fromkeys(
        ("Consumer", "DeserializingConsumer", "AIOKafkaConsumer"), f"KafkaClient(...).{MADE['KafkaConsumer']}"
    ),
    **dict.fromkeys(("SerializingProducer", "AIOKafkaProducer"), "KafkaClient(...).producer()"),
    **dict.fromkeys(("AdminClient", "KafkaAdminClient", "AIOKafkaAdminClient"), "KafkaClient(...).admin"),
    "AIOKafkaClient": "KafkaClient of pykafka.aio",
}
_NEEDLESS = "needs none: "
_OPENED = f"{_NEEDLESS}it has started when it is made, and close() ends it"
#: Methods of other clients, by the class here: {name: what to write instead}.
METHODS = {
    "KafkaProducer": {
        "send": "produce()",
        "send_and_wait": "produce().get()",
        "send_batch": "produce_many()",
        "create_batch": "produce_many()",
        "poll": f"{_NEEDLESS}a worker calls on_delivery",
        "start": _OPENED,
        "list_topics": "client.admin.list_topics()",
        "send_offsets_to_transaction": "send_offsets(consumer)",
    },
    "KafkaConsumer": {
        "consume": "poll(max_records, timeout=seconds)",
        "getone": "one()",
        "getmany": "poll()",
        "start": _OPENED,
        "stop": "close()",
        "list_topics": "client.admin.list_topics()",
        **dict.fromkeys(
            ("beginning_offsets", "end_offsets", "get_watermark_offsets"), "client.admin.list_offsets(...)"
        ),
        "offsets_for_times": "seek_to_time(time)",
        "store_offsets": "commit(record), or auto_commit=True",
        "memberid": "consumer.health().member",
    },
}
#: Likewise of coroutines.
AWAITED = {"send_and_wait": "await (await produce())", "getone": "await one()", "getmany": "await poll()"}
#: Parameters of `KafkaConsumer.poll`, which returns a list: kafka-python and Java return records by partition.
POLL = {"max_messages": "max_records", "num_messages": "max_records", "timeout_ms": "timeout (s)"}
#: Options of producers or consumers elsewhere, which are options of the client here.
OF_CLIENT = {
    "bootstrap_servers",
    "client_id",
    "connections_max_idle_ms",
    "sasl_mechanism",
    "security_protocol",
    "socket_timeout_ms",
}


def most_similar(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs from `name` by the fewest slips; None if none is close.

    A slip is a missing, extra or wrong letter, or two letters in the wrong order. Upper case and separators do not count.
    Names that differ only in their numbers are not misspelt.

    :param name: as the user wrote it
    :param known: the names that exist
    """
    wanted = _plain(name)
    letters, series = set(wanted), wanted.translate(_WITHOUT_DIGITS)
    limit = (len(wanted) >= ONE_SLIP_FROM) + (len(wanted) >= TWO_SLIPS_FROM)
    best: tuple[int, str] | None = None
    for other in known:
        plain = _plain(other)
        # Both checks are quick, so thousands of names take no time.
        if abs(len(plain) - len(wanted)) > limit or len(letters ^ set(plain)) > 2 * limit:
            continue
        if plain != wanted and plain.translate(_WITHOUT_DIGITS) == series:
            continue
        found = (_slips(wanted, plain), other)
        if found[0] <= limit and (best is None or found < best):
            best = found
    return None if best is None else best[1]


def _plain(name: str) -> str:
    return name.casefold().translate(_SEPARATORS)


def _slips(one: str, other: str) -> int:
    """Return how many slips lead from one text to the other."""
    two_before: list[int] = []
    before = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, opposite in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != opposite))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == opposite:
                cost = min(cost, two_before[j - 2] + 1)
            row.append(cost)
        two_before, before = before, row
    return before[-1]


class Elsewhere:
    """A method of other clients that has another name here: the AttributeError says which one.

    :param ours: what to write here
    """

    def __init__(self, ours: str) -> None:
        self._ours = ours
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        instead = f", and {self._ours}" if self._ours.startswith(_NEEDLESS) else f"; it is {self._ours} here"
        raise AttributeError(f"{owner.__name__} has no {self._name}(){instead}")


T = TypeVar("T", bound=type)


def with_hints(cls: T, awaited: bool = False) -> T:
    """Add to a class what to write instead of the methods that other clients have; a decorator.

    :param awaited: whether its methods are awaited
    """
    for name, ours in METHODS[cls.__name__].items():
        if not hasattr(cls, name):
            hint = Elsewhere((AWAITED.get(name) if awaited else None) or ours)
            hint.__set_name__(cls, name)
            setattr(cls, name, hint)
    return cls


def unknown_option(call: str, unknown: Iterable[str], known: Iterable[str], meant: Mapping[str, str]) -> TypeError:
    """Return the error for options that do not exist; it names those that are meant.

    :param call: what got the options, as a program writes it
    :param unknown: the names that do not exist
    :param known: the names that do
    :param meant: what other clients' names are called here, "" for what this client cannot do
    """
    names = sorted(unknown)
    return TypeError("; ".join([f"{call} has no option {', '.join(names)}", *hints(names, known, meant)]))


def hints(names: Iterable[str], known: Iterable[str], meant: Mapping[str, str]) -> list[str]:
    """Return what to write for options that do not exist.

    :param names: the names that do not exist
    :param known: the names that do
    :param meant: as of `unknown_option`
    """
    found = []
    known = list(known)
    for name in names:
        if name in meant:
            found.append(f"{name} is {meant[name]} here" if meant[name] else f"this client has no {name} yet")
        elif meant is not CLIENT and name in OF_CLIENT:
            ours = CLIENT.get(name, name)
            found.append(
                f"{name} is {ours}, an option of KafkaClient" if ours != name else f"{name} is an option of KafkaClient"
            )
        elif (similar := most_similar(name, known)) is not None:
            found.append(f"did you mean {similar}?")
    return found


def not_by_a_client(cls: str, first: Any, unknown: Iterable[str], meant: Mapping[str, str]) -> TypeError:
    """Return the error for a producer or consumer that a program makes itself, as it does with other clients.

    :param cls: the class
    :param first: the first argument; a dict is a configuration, as confluent-kafka takes it, and may hold secrets
    :param unknown: names of options that the class does not have
    :param meant: as of `unknown_option`
    """
    client = "KafkaClient.from_config(...)" if isinstance(first, Mapping) else 'KafkaClient("HOST:PORT")'
    text = f"a client makes a {cls}: write {client}.{MADE.get(cls, MADE['KafkaConsumer'])}"
    if isinstance(first, Mapping):
        text += "; from_config() takes the keys of librdkafka and of Kafka's Java clients"
    return TypeError("; ".join([text, *hints(sorted(unknown), (), meant)]))


def missing_class(module: str, name: str) -> ImportError | None:
    """Return the error for a class of another client, with what to write instead; None if the name is none.

    An ImportError, as `from pykafka import NAME` replaces other errors.

    :param module: asked for it
    :param name: the class
    """
    instead = CLASSES.get(name)
    return None if instead is None else ImportError(f"{module} has no {name}: write {instead}", name=module)
