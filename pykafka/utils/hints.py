"""Hints in errors: a name that a user may have misspelt, or has from another client, and what to write here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from inspect import CO_VARARGS, CO_VARKEYWORDS, iscoroutinefunction
from types import FunctionType
from typing import Any, NoReturn, TypeVar

#: From how many letters on a name with one slip, or two, is taken for the same name.
ONE_SLIP_FROM, TWO_SLIPS_FROM = 3, 12
#: Separators that users mix up.
_SEPARATORS = str.maketrans("-.", "__")
#: Numbers distinguish the names of a series: "orders-2" is not a misspelt "orders-1".
_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")

#: Values below that begin with a colon are sentences of their own.
_CONFIG = ": write KafkaClient.from_config({...})"
_ERRORS = ": calls raise errors, and on_delivery gets those of messages"
_LOOP = ": pykafka.aio takes the loop that runs"
#: Options of another client that are not one option here; `Options.elsewhere` has options of another name.
PRODUCER = {
    "callback": "on_delivery",
    "delivery_report": "on_delivery",
    "dr_cb": "on_delivery",
    "on_delivery_cb": "on_delivery",
    "conf": _CONFIG,
    "error_cb": _ERRORS,
    "loop": _LOOP,
    "max_in_flight_requests_per_connection": ": the producer keeps messages in order with up to five batches in flight",
    "queue_buffering_max_messages": "buffer_memory",
    "request_timeout_ms": "delivery_timeout_ms, or KafkaClient(socket_timeout_ms=)",
    "serializer": "key_serializer and value_serializer",
}
#: Likewise of consumers.
CONSUMER = {
    "conf": _CONFIG,
    "deserializer": "key_deserializer and value_deserializer",
    "enable_auto_offset_store": ": write commit(record), or auto_commit=True",
    "error_cb": _ERRORS,
    "loop": _LOOP,
    "max_poll_records": "poll(max_records)",
    "on_assign": ": listener= takes an object with on_assigned(partitions)",
    "on_commit": ": write commit_async(on_commit=), or interceptors= with an object that has on_commit(offsets)",
    "on_lost": ": listener= takes an object with on_lost(partitions)",
    "on_revoke": ": listener= takes an object with on_revoked(partitions)",
    "partitions": "assign()",
    "pattern": ': write consumer("^PATTERN")',
    "topic": "consumer(*topics)",
    "topics": "consumer(*topics)",
}
#: Options of clients.
CLIENT = {
    "api_version": ": the client asks each broker for its versions",
    "bootstrap_servers": "hosts",
    "brokers": "hosts",
    "conf": _CONFIG,
    "error_cb": _ERRORS,
    "group_id": "consumer(group=)",
    "host": "hosts",
    "loop": _LOOP,
    "metadata_broker_list": "hosts",
    "request_timeout_ms": "socket_timeout_ms",
    "servers": "hosts",
    # Clients that make no producers and consumers take these options themselves.
    "acks": "producer(acks=)",
    "batch_size": "producer(batch_size=)",
    "compression_type": "producer(compression=)",
    "enable_idempotence": "producer(enable_idempotence=)",
    "key_serializer": "producer(key_serializer=)",
    "linger_ms": "producer(linger_ms=)",
    "partitioner": "producer(partitioner=)",
    "retries": "producer(max_retries=)",
    "transactional_id": "producer(transactional_id=)",
    "value_serializer": "producer(value_serializer=)",
    "auto_commit_interval_ms": "consumer(auto_commit_interval_ms=)",
    "auto_offset_reset": "consumer(auto_offset_reset=)",
    "consumer_timeout_ms": "consumer(consumer_timeout_ms=)",
    "enable_auto_commit": "consumer(auto_commit=)",
    "group": "consumer(group=)",
    "group_instance_id": "consumer(group_instance_id=)",
    "isolation_level": "consumer(isolation_level=)",
    "key_deserializer": "consumer(key_deserializer=)",
    "max_poll_interval_ms": "consumer(max_poll_interval_ms=)",
    "max_poll_records": "poll(max_records)",
    "partition_assignment_strategy": "consumer(assignor=)",
    "session_timeout_ms": "consumer(session_timeout_ms=)",
    "value_deserializer": "consumer(value_deserializer=)",
}
#: What takes the configurations of other clients.
CONFIGURATION = (
    'KafkaClient.from_config({"bootstrap.servers": ...}) takes the keys of librdkafka and of Kafka\'s Java clients, and '
    "passes those of producers and consumers on"
)
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
        ("Consumer", "DeserializingConsumer", "AIOConsumer", "AIOKafkaConsumer"),
        f"KafkaClient(...).{MADE['KafkaConsumer']}",
    ),
    **dict.fromkeys(("SerializingProducer", "AIOProducer", "AIOKafkaProducer"), "KafkaClient(...).producer()"),
    **dict.fromkeys(("AdminClient", "KafkaAdminClient", "AIOKafkaAdminClient"), "KafkaClient(...).admin"),
    "AIOKafkaClient": "KafkaClient of pykafka.aio",
    **dict.fromkeys(("ConsumerRebalanceListener", "AbstractConsumerRebalanceListener"), "RebalanceListener"),
    "KafkaError": "KafkaException, the base of all errors of pykafka.exceptions",
}
_NEEDLESS = "needs none: "
_OPENED = f"{_NEEDLESS}it has started when it is made, and close() ends it"
#: What other clients let any of their objects do, and here a client does.
_OF_A_CLIENT = {
    "bootstrap_connected": "client.health()",
    "cluster_id": "client.admin.describe_cluster().cluster_id",
    "list_topics": "client.admin.list_topics()",
    "set_sasl_credentials": "client.set_credentials(Plain(user, password))",
}
#: Methods of other clients, by the class here: {name: what to write instead}.
METHODS = {
    "KafkaProducer": {
        "send": "produce()",
        "send_and_wait": "produce().get()",
        "send_batch": "produce_many()",
        "create_batch": "produce_many()",
        "produce_batch": "produce_many()",
        "poll": f"{_NEEDLESS}a worker calls on_delivery",
        "start": _OPENED,
        "stop": "close()",
        "send_offsets_to_transaction": "send_offsets(consumer)",
        **_OF_A_CLIENT,
    },
    "KafkaConsumer": {
        "consume": "poll(max_records, timeout=seconds)",
        "getone": "one()",
        "getmany": "poll()",
        "start": _OPENED,
        "stop": "close()",
        **dict.fromkeys(
            ("beginning_offsets", "end_offsets", "get_watermark_offsets", "highwater", "last_stable_offset"),
            "client.admin.list_offsets(...)",
        ),
        **dict.fromkeys(("consumer_group_metadata", "group_metadata"), "producer.send_offsets(consumer)"),
        "last_poll_timestamp": "consumer.health()",
        **dict.fromkeys(("incremental_assign", "incremental_unassign"), ": assign() keeps partitions that stay"),
        "unassign": "unsubscribe()",
        "partitions_for_topic": "client.topics[name].partitions",
        "topics": "client.admin.list_topics()",
        "seek_to_committed": ": write seek(partition, offset) with an offset of committed()",
        "offsets_for_times": "seek_to_time(time)",
        "store_offsets": "commit(record), or auto_commit=True",
        "memberid": "consumer.health().member",
        **_OF_A_CLIENT,
    },
    "ShareConsumer": {
        **dict.fromkeys(("acknowledge", "acknowledge_offset"), "accept(record), release(record) or reject(record)"),
        "commit_sync": "commit()",
        "consume": "poll(max_records, timeout=seconds)",
        "set_acknowledgement_commit_callback": "client.share_consumer(on_acknowledge=)",
        "unsubscribe": "close()",
        "start": _OPENED,
        "stop": "close()",
        **_OF_A_CLIENT,
    },
    "KafkaClient": {
        **_OF_A_CLIENT,
        "start": f"{_NEEDLESS}it connects when it is made (a coroutine's when it is awaited), and close() ends it",
        "stop": "close()",
        **dict.fromkeys(("send", "produce", "flush"), "client.producer().produce()"),
        **dict.fromkeys(("subscribe", "poll", "consume", "get_consumer"), f"client.{MADE['KafkaConsumer']}"),
    },
}
#: Likewise of coroutines.
AWAITED = {"send_and_wait": "await (await produce())", "getone": "await one()", "getmany": "await poll()"}
_SECONDS = {"timeout_ms": "timeout (s)"}
#: Parameters of `KafkaConsumer.poll`, which returns a list: kafka-python and Java return records by partition.
POLL = {
    "max_messages": "max_records",
    "num_messages": "max_records",
    "update_offsets": ": seek() makes the next call return records again",
    **_SECONDS,
}
#: Parameters of `KafkaProducer.produce`.
PRODUCE = {
    "callback": "on_delivery(error, delivery)",
    "delivery_callback": "on_delivery(error, delivery)",
    "message": "value",
    "msg": "value",
    "partition_key": "key",
    "timestamp_ms": "timestamp",
    "topic_name": "topic",
}
_COMMIT = {
    "message": ": write commit(record)",
    "offsets": ": write commit({TopicPartition(topic, number): offset})",
}
#: Arguments of other clients' methods, by class and method: {name: what to write instead}. Only of methods that are not called
#: for each message: whoever calls them passes one more function.
ARGUMENTS: dict[str, dict[str, dict[str, str]]] = {
    "KafkaProducer": {"flush": _SECONDS, "close": _SECONDS, "partitions_for": _SECONDS},
    "KafkaConsumer": {
        "subscribe": {
            "listener": ": write client.consumer(listener=)",
            "on_assign": ": client.consumer(listener=) takes an object with on_assigned(partitions)",
            "on_lost": ": client.consumer(listener=) takes an object with on_lost(partitions)",
            "on_revoke": ": client.consumer(listener=) takes an object with on_revoked(partitions)",
            "pattern": ': write subscribe("^PATTERN")',
            "topics": ": write subscribe(*topics)",
        },
        "assign": {"incremental": ": partitions that stay keep their positions"},
        "commit": {
            "asynchronous": ": commit() waits, and commit_async() does not",
            "retry_strategy": ": commit() tries again within timeout (s)",
            **_COMMIT,
            **_SECONDS,
        },
        "commit_async": {
            "asynchronous": ": commit() waits, and commit_async() does not",
            "callback": "on_commit(error, offsets)",
            **{name: ours.replace("commit(", "commit_async(") for name, ours in _COMMIT.items()},
        },
        "committed": {"metadata": ": the result has it", "partitions": ": write committed(*partitions)", **_SECONDS},
        "close": {"autocommit": ": write client.consumer(auto_commit=), or commit() before close()", **_SECONDS},
    },
    "ShareConsumer": {"subscribe": {"topics": ": write subscribe(*topics)"}, "close": _SECONDS, "commit": _SECONDS},
    "KafkaClient": {"producer": {}},
}
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
    :param name: of the method, for compiled classes, which do not call `__set_name__`
    """

    def __init__(self, ours: str, name: str = "") -> None:
        self._ours = ours
        self._name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        instead = f"; it is {self._ours} here"
        if self._ours.startswith((_NEEDLESS, ":")):
            instead = self._ours if self._ours.startswith(":") else f", and {self._ours}"
        raise AttributeError(f"{owner.__name__} has no {self._name}(){instead}")


T = TypeVar("T", bound=type)


def with_hints(cls: T, awaited: bool = False) -> T:
    """Add to a class what to write instead of the methods and arguments that other clients have; a decorator.

    :param awaited: whether its methods are awaited
    """
    for name, meant in ARGUMENTS.get(cls.__name__, {}).items():
        owner = next((one for one in cls.__mro__ if name in vars(one)), None)
        method = None if owner is None else vars(owner)[name]
        # Not what already calls such a method, as the coroutines of `pykafka.aio` do.
        if type(method) is FunctionType and not hasattr(method, "__wrapped__"):
            setattr(owner, name, _explaining(method, meant))
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


def _explaining(method: FunctionType, meant: Mapping[str, str]) -> Callable[..., Any]:
    """Return a method whose TypeError for arguments that do not exist says what to write.

    :param meant: as of `unknown_option`
    """
    code = method.__code__
    positional = code.co_varnames[1 : code.co_argcount]
    named = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    most = None if code.co_flags & CO_VARARGS else positional
    takes_options = bool(code.co_flags & CO_VARKEYWORDS)  # and checks them itself
    call = f"{method.__name__}()"

    def explained(args: Sequence[Any], given: Collection[str]) -> TypeError | None:
        known = () if takes_options else (*positional, *named)
        return wrong_arguments(call, most, known, args[1:], () if takes_options else given, meant)

    if iscoroutinefunction(method):

        @wraps(method)
        async def awaits(*args: Any, **given: Any) -> Any:
            try:
                return await method(*args, **given)
            except TypeError:
                if error := explained(args, given):
                    raise error from None
                raise

        return awaits

    @wraps(method)
    def calls(*args: Any, **given: Any) -> Any:
        try:
            return method(*args, **given)
        except TypeError:
            if error := explained(args, given):
                raise error from None
            raise

    return calls


def wrong_arguments(
    call: str,
    positional: Sequence[str] | None,
    known: Sequence[str],
    args: Sequence[Any],
    given: Iterable[str],
    meant: Mapping[str, str],
) -> TypeError | None:
    """Return the error for arguments that a call does not have, with those that are meant; None if it has them.

    :param call: as a program writes it
    :param positional: the parameters that are given by position; None: any number of arguments
    :param known: all parameters; none: any options
    :param args: the arguments by position, without the object itself; they may hold secrets
    :param given: the names of the others
    :param meant: as of `unknown_option`
    """
    unknown = sorted(name for name in given if name not in known)
    if unknown:
        return TypeError("; ".join([f"{call} has no argument {', '.join(unknown)}", *hints(unknown, known, meant)]))
    if positional is None or len(args) <= len(positional):
        return None
    if any(isinstance(one, Mapping) for one in args):
        return TypeError(f"{call} takes no dict: {CONFIGURATION}")
    by_position = f"{' and '.join(positional)} by position" if positional else "nothing by position"
    by_name = f"{', '.join(f'{name}=' for name in known if name not in positional) or 'options'} by name"
    return TypeError(f"{call} takes {by_position}, and {by_name}")


def produce_arguments(args: Sequence[Any], names: Collection[str] | None) -> TypeError | None:
    """Return the error for arguments that `KafkaProducer.produce` does not have; None if it has them.

    Compiled functions call this after a TypeError. (The pure source has Python's own error: a wrapper costs each message.)

    :param args: the arguments by position and by name, the object itself first
    :param names: the names of the last ones, or None
    """
    names = names or ()
    known = ("topic", "value", "key", "headers", "timestamp", "partition", "on_delivery")
    return wrong_arguments("produce()", known[:2], known, args[1 : len(args) - len(names)], names, PRODUCE)


def hints(names: Iterable[str], known: Iterable[str], meant: Mapping[str, str]) -> list[str]:
    """Return what to write for options that do not exist.

    :param names: the names that do not exist
    :param known: the names that do
    :param meant: as of `unknown_option`
    """
    found = []
    known = list(known)
    for name in names:
        plain = name.translate(_SEPARATORS)  # "group.id", of a dict for confluent-kafka
        if plain in meant:
            found.append(_said(name, meant[plain]))
        elif meant is not CLIENT and plain in OF_CLIENT:
            ours = CLIENT.get(plain, plain)
            found.append(
                f"{name} is {ours}, an option of KafkaClient" if ours != name else f"{name} is an option of KafkaClient"
            )
        elif (similar := most_similar(name, known)) is not None:
            found.append(f"did you mean {similar}?")
    return found


def _said(name: str, ours: str) -> str:
    if ours.startswith(":"):
        return f"{name}{ours}"
    return f"{name} is {ours} here" if ours else f"this client has no {name} yet"


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
