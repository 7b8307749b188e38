"""The parts of async facades that are not generated: opening, closing, producing and iterating."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from functools import partial, wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast

from pykafka.aio.steps import Sending, Taking
from pykafka.consumer.options import KafkaConsumerOptions
from pykafka.exceptions import ConsumerStoppedException, WouldBlockError
from pykafka.handlers.bridge import await_call, bridged, require_home, running
from pykafka.handlers.patching import original
from pykafka.kafkaconsumer import POLL_RECORDS
from pykafka.producer.options import KafkaProducerOptions
from pykafka.record import K, Record, V
from pykafka.utils.hints import CONSUMER, METHODS, PRODUCER, Elsewhere, not_by_a_client, with_hints

if TYPE_CHECKING:
    import datetime
    import os
    from types import TracebackType

    from pykafka.client import KafkaClient
    from pykafka.common import OffsetAndMetadata, TopicPartition
    from pykafka.compat.producer import Producer
    from pykafka.handlers.aio import AsyncioHandler
    from pykafka.kafkaconsumer import KafkaConsumer
    from pykafka.kafkaproducer import Delivery, KafkaProducer
    from pykafka.producer.delivery_callbacks import OnDelivery
    from pykafka.producer.producer_record import Headers
    from pykafka.protocol.message import Message
    from pykafka.sharegroups.consumer import ShareConsumer

_thread_number = original("_thread", "get_ident")

#: What listeners of rebalances have.
LISTENS = ("on_revoked", "on_assigned", "on_lost")

#: Options whose functions are called where nothing can wait: coroutine functions are refused by name.
AT_ONCE = frozenset(
    {
        *("key_serializer", "value_serializer", "serializer", "key_deserializer", "value_deserializer", "deserializer"),
        *("partitioner", "interceptors", "sasl_oauth_token_provider"),
    }
)

A = ParamSpec("A")
T = TypeVar("T")
R = TypeVar("R")
D = TypeVar("D", bound=Mapping[str, Any])


class _Awaited:
    """A function or coroutine function, called in the bridge.

    :param fn: the function
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._fn(*args, **kwargs)
        return await_call(result) if inspect.isawaitable(result) else result


def sync(fn: T) -> T:
    """Return a function that calls a coroutine function and waits for it; everything else as it is.

    The client calls its callbacks in the bridge. Listeners may have methods of either kind.
    """
    if inspect.iscoroutinefunction(fn):
        return cast("T", _Awaited(fn))
    methods = {name: _Awaited(getattr(fn, name)) for name in LISTENS if hasattr(fn, name)}
    return cast("T", SimpleNamespace(**methods)) if methods else fn


def sync_all(options: D) -> D:
    """Return options whose coroutine functions are called by `sync`; those that must answer at once stay, to be refused."""
    return cast("D", {name: value if name in AT_ONCE else sync(value) for name, value in options.items()})


def _by_a_client(constructor: Callable[A, None]) -> Callable[A, None]:
    """Return a constructor that refuses the arguments of other clients' classes."""

    @wraps(constructor)
    def call(*args: A.args, **options: A.kwargs) -> None:
        first = args[1] if len(args) > 1 else None
        if first is None or options or type(first) in (str, dict):
            meant = {**KafkaProducerOptions.elsewhere(), **KafkaConsumerOptions.elsewhere(), **CONSUMER, **PRODUCER}
            raise not_by_a_client(type(args[0]).__name__, first, options, meant)
        constructor(*args, **options)

    return call


class AsyncFacade(Generic[T]):
    """The coroutines of an object of the blocking API.

    :param inner: the object
    """

    _inner: T

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__name__ in METHODS:
            with_hints(cls, awaited=True)

    @_by_a_client
    def __init__(self, inner: T) -> None:
        self._inner = inner
        self._home = running()
        self._thread = _thread_number()

    @property
    def _here(self) -> T:
        """The object, for calls that may wait.

        :raises RuntimeError: it belongs to another event loop than the one that runs
        """
        inner = self._inner
        require_home(self._home)
        return inner

    def __repr__(self) -> str:
        return f"<pykafka.aio.{type(self).__name__} over {self._inner!r}>"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._inner is self._inner

    def __hash__(self) -> int:
        return hash((type(self), id(self._inner)))


def coroutine(method: Callable[Concatenate[Any, A], R]) -> Callable[Concatenate[Any, A], Coroutine[Any, Any, R]]:
    """Return the coroutine function of a facade that runs a method of the blocking object in the bridge."""
    name = method.__name__

    @wraps(method)
    async def call(self: AsyncFacade[Any], /, *args: A.args, **options: A.kwargs) -> R:
        result: R = await bridged(getattr(self._here, name), *args, **options)
        return result

    return call


class Context(Protocol):
    """The shape of context managers."""

    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...


C = TypeVar("C", bound=Context)


class Closing(AsyncFacade[C]):
    """The facade of an object that has to be closed: `async with` closes it."""

    async def __aenter__(self) -> Self:
        await bridged(self._here.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await bridged(self._here.__exit__, kind, error, trace)


O = TypeVar("O", bound=Closing[Any])  # noqa: E741 - what is opened


class Opening(Generic[O]):
    """Something that is made when it is awaited: `async with` opens and closes it, `await` only opens it.

    :param make: makes it, in the bridge
    """

    def __init__(self, make: Callable[[], O]) -> None:
        self._make = make
        self._made: O | None = None

    if not TYPE_CHECKING:  # a checker of types says the same, before the program runs

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"{name!r} is asked of what is not open yet: use `async with ... as opened`, or `opened = await ...`"
            )

    def __await__(self) -> Generator[Any, Any, O]:
        return bridged(self._make).__await__()

    async def __aenter__(self) -> O:
        self._made = await self
        entered: O = await self._made.__aenter__()
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        made, self._made = self._made, None
        if made is not None:
            await made.__aexit__(kind, error, trace)


CL = TypeVar("CL", bound="KafkaClient")


class Client(Closing[CL]):
    """A client that connects when it is entered or awaited, to the loop that runs then.

    :param make: makes the blocking client over a handler
    """

    def __init__(self, make: Callable[[AsyncioHandler], CL]) -> None:
        self._make: Callable[[AsyncioHandler], CL] | None = make

    def __repr__(self) -> str:
        return super().__repr__() if "_inner" in vars(self) else f"<pykafka.aio.{type(self).__name__}, not connected>"

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":
            raise RuntimeError(
                "this client is not connected: use `async with KafkaClient(...)` or `await KafkaClient(...)`"
            )
        hint = inspect.getattr_static(type(self), name, None)
        if isinstance(hint, Elsewhere):
            hint.__get__(self, type(self))
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    @classmethod
    def from_config(
        cls, config: str | os.PathLike[str] | Mapping[str, Any] | None = None, *, env: bool = False, **overrides: Any
    ) -> Self:
        """Return a client made by a configuration. As `pykafka.KafkaClient.from_config`."""
        return cls._made_by(lambda kind, handler: kind.from_config(config, env=env, handler=handler, **overrides))

    @classmethod
    def from_env(cls, **overrides: Any) -> Self:
        """Return a client made by the environment. As `pykafka.KafkaClient.from_env`."""
        return cls._made_by(lambda kind, handler: kind.from_env(handler=handler, **overrides))

    @classmethod
    def _made_by(cls, make: Callable[[Any, AsyncioHandler], Any]) -> Self:
        from pykafka.client import KafkaClient

        client = cls.__new__(cls)
        Client.__init__(client, lambda handler: make(KafkaClient, handler))
        return client

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._connect().__await__()

    async def _connect(self) -> Self:
        make, self._make = self._make, None  # it may hold secrets
        if make is not None:
            from pykafka.handlers.aio import AsyncioHandler

            try:
                self._inner = await bridged(make, AsyncioHandler())
                self._home, self._thread = running(), _thread_number()
            except BaseException:
                self._make = make  # it may be tried again
                raise
        return self

    async def __aenter__(self) -> Self:
        return await self._connect()

    async def close(self) -> None:
        """Stop all producers and consumers of this client, then end every worker and connection.

        After the end of the client's loop this ends what is left of it, without any wait.

        :raises KafkaException: a producer could not deliver, or a consumer not commit; everything is closed nevertheless
        """
        home = self._home
        await bridged((self._inner if home is not None and home.is_closed() else self._here).close)


P = TypeVar("P", bound="Producer")


class Produces(Closing[P]):
    """Producing to one topic: what has room is written at once, without a switch of greenlets."""

    @_by_a_client
    def __init__(self, inner: P) -> None:
        super().__init__(inner)
        self._turns = cast("AsyncioHandler", inner._handler)._turns

    async def produce(
        self,
        message: bytes | None,
        partition_key: bytes | None = None,
        timestamp: int | datetime.datetime | None = None,
        headers: Headers | None = None,
        *,
        on_delivery: OnDelivery | None = None,
    ) -> Message:
        """Send a message. As `pykafka.Producer.produce`; it waits when that one blocks.

        A cancellation may come before the message was taken, or in a wait for its acknowledgement, never between: a call that
        returns has taken the message once.
        """
        if _thread_number() != self._thread:
            require_home(self._home)
        if self._turns.overdue:
            await self._turns.turn()
        inner = self._inner
        if on_delivery is None and timestamp is None and headers is None:
            produced = inner._at_once(message, partition_key)
            if produced is not None:
                return produced
        return await bridged(
            self._here.produce, message, partition_key, timestamp, headers, on_delivery=sync(on_delivery)
        )


class Reader(Context, Protocol):
    """A blocking consumer of one topic."""

    _cluster: Any
    _handler: Any
    _options: Any

    def _at_once(self) -> Message | None: ...
    def _consume(self) -> Message | None: ...
    def consume(self, block: bool = True, unblock_event: Any = None) -> Message | None: ...


M = TypeVar("M", bound=Reader)


class Messages(Closing[M]):
    """Consuming one by one: what is buffered is taken at once, without a switch of greenlets.

    A cancellation comes before a message is taken, so that it loses none: the next call returns it.
    """

    @_by_a_client
    def __init__(self, inner: M) -> None:
        super().__init__(inner)
        self._turns = cast("AsyncioHandler", inner._handler)._turns

    async def consume(self, block: bool = True, unblock_event: Any = None) -> Message | None:
        """Return the next message. As the blocking `consume`; it waits when that one blocks."""
        if self._turns.overdue:
            await self._turns.turn()
        inner = self._inner
        message = inner._at_once() if inner._cluster.tracer is None else None
        return message if message is not None else await bridged(self._here.consume, block, unblock_event)

    def __aiter__(self) -> Self:
        inner = self._inner
        tracer = inner._cluster.tracer
        return self if tracer is None else cast("Self", tracer.each_async(inner, self, inner._options.consumer_group))

    async def __anext__(self) -> Message:
        """Return the next message; end when none comes for `consumer_timeout_ms`."""
        if self._turns.overdue:
            await self._turns.turn()
        message = self._inner._at_once()
        if message is None:
            message = await bridged(self._here._consume)
        if message is None:
            raise StopAsyncIteration
        return message


class Transaction(Closing[Context]):
    """One transaction as an `async with` block: committed on leaving it, aborted on any exception, also a cancellation.

    Entering and leaving it raise the errors of `begin_transaction()` and `commit_transaction()`.
    """


class Sends(Sending[K, V], Closing["KafkaProducer[K, V]"], Generic[K, V]):
    """Producing to any topic: what has room is written at once, without a switch of greenlets."""

    @_by_a_client
    def __init__(self, inner: KafkaProducer[K, V]) -> None:
        super().__init__(inner)
        self._fast = inner
        self._turns = cast("AsyncioHandler", inner._handler)._turns
        # Serializers may run twice if a lock is taken, which is rare; interceptors may count.
        self._may_try = inner._interceptors is None

    def transaction(self, consumer: Records[Any, Any] | None = None) -> Transaction:
        """Return a transaction for an `async with` block, as `pykafka.KafkaProducer.transaction`."""
        return Transaction(self._here.transaction(None if consumer is None else consumer._inner))

    async def init_transactions(self, timeout: float | None = None, consumer: Records[Any, Any] | None = None) -> None:
        """Fence other producers with this transactional id, as `pykafka.KafkaProducer.init_transactions`."""
        await bridged(lambda: self._here.init_transactions(timeout, None if consumer is None else consumer._inner))

    async def send_offsets(
        self,
        consumer: Records[Any, Any],
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commit a consumer's offsets with the transaction, as `pykafka.KafkaProducer.send_offsets`."""
        await bridged(lambda: self._here.send_offsets(consumer._inner, offsets, timeout))

    async def _produce_slowly(
        self, topic: str, value: V | None, key: K | None, headers: Any, timestamp: Any, partition: Any, on_delivery: Any
    ) -> Delivery[K, V]:
        """Produce what is not plain, or has to wait."""
        require_home(self._home)
        if self._turns.overdue:
            await cast("AsyncioHandler", self._inner._handler)._turns.turn()
        if isinstance(headers, Iterator):
            headers = tuple(headers)  # they may be read twice
        callback = None if on_delivery is None else sync(on_delivery)
        options = {"headers": headers, "timestamp": timestamp, "partition": partition, "on_delivery": callback}
        if not self._may_try:
            return await bridged(partial(self._here.produce, topic, value, key=key, **options))
        try:
            made = self._inner._try_produce(topic, value, key=key, **options)
        except WouldBlockError:  # nothing was taken
            return await bridged(partial(self._here.produce, topic, value, key=key, **options))
        return await bridged(made) if callable(made) else made


class Records(Taking[K, V], Closing["KafkaConsumer[K, V]"], Generic[K, V]):
    """Consuming records of any topics: what is buffered is taken at once, without a switch of greenlets.

    A cancellation comes before a record is taken, so that it loses none: the next call returns it.
    """

    @_by_a_client
    def __init__(self, inner: KafkaConsumer[K, V]) -> None:
        super().__init__(inner)
        self._turns = cast("AsyncioHandler", inner._handler)._turns
        self._buffers, self._at_hand = inner._buffers, inner._pipeline.plain
        timeout_ms = inner._options.consumer_timeout_ms
        self._timeout = None if timeout_ms < 0 else timeout_ms / 1000

    def __aiter__(self) -> Self:
        """Begin an iteration.

        :raises ConsumerStoppedException: the consumer is closed
        """
        inner = self._inner
        inner._check_reads()
        tracer = inner._cluster.tracer
        return self if tracer is None else cast("Self", tracer.each_async(inner, self, inner._options.consumer_group))

    async def one(self, timeout: float | None = None) -> Record[K, V] | None:
        """Return the next record. As `pykafka.kafkaconsumer.KafkaConsumer.one`.

        :param timeout: how long to wait for it (s); None for as long as it takes
        """
        if self._turns.overdue:
            await cast("AsyncioHandler", self._inner._handler)._turns.turn()
        inner = self._inner
        record = inner._at_once() if inner._cluster.tracer is None else None
        return record if record is not None else await bridged(self._here.one, timeout)

    async def _next_slowly(self) -> Record[K, V]:
        """Return the next record, of which none is buffered."""
        record = None
        try:
            if self._turns.overdue:
                await cast("AsyncioHandler", self._inner._handler)._turns.turn()
            inner = self._inner
            record = inner._at_once() or await bridged(self._here._read, inner._take_one, self._timeout)
        except ConsumerStoppedException:
            if not self._inner._closed:
                raise
        if record is None:
            raise StopAsyncIteration
        return record

    async def batches(self, max_records: int = POLL_RECORDS) -> AsyncIterator[list[Record[K, V]]]:
        """Yield lists of records until none comes for `consumer_timeout_ms`, or until `close()`.

        :param max_records: the most in a list
        :raises ConsumerStoppedException: the consumer was closed before the iteration began
        """
        self._inner._check_reads()
        while True:
            try:
                records = await bridged(self._here.poll, max_records, self._timeout)
            except ConsumerStoppedException:
                if not self._inner._closed:
                    raise
                return
            if not records:
                return
            yield records


class Acquires(Closing["ShareConsumer[K, V]"], Generic[K, V]):
    """Taking the records of a share group.

    A cancellation comes before a record is taken, so that it loses none: the next call returns it.
    """

    @_by_a_client
    def __init__(self, inner: ShareConsumer[K, V]) -> None:
        super().__init__(inner)
        timeout_ms = inner._options.consumer_timeout_ms
        self._timeout = None if timeout_ms < 0 else timeout_ms / 1000

    def __aiter__(self) -> Self:
        """Begin an iteration.

        :raises ConsumerStoppedException: the consumer is closed
        """
        inner = self._inner
        if inner._closed:
            inner._check_open()
        tracer = inner._cluster.tracer
        return self if tracer is None else cast("Self", tracer.each_async(inner, self, inner._options.group))

    async def __anext__(self) -> Record[K, V]:
        """Return the next record; end when none comes for `consumer_timeout_ms`, or at `close()`."""
        found: list[Record[K, V]] = []
        try:
            found = await bridged(self._here._read, 1, self._timeout)
        except ConsumerStoppedException:
            if not self._inner._closed:
                raise
        if not found:
            raise StopAsyncIteration
        return found[0]
