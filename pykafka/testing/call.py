"""`Call`: one request that a fake broker answers, and `api`, which registers what answers it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pykafka.exceptions import ProtocolClientError
from pykafka.protocol.schema import Request, Response, Struct

if TYPE_CHECKING:
    from pykafka.testing.logins import Login
    from pykafka.testing.state import ClusterState, Node

R = TypeVar("R", bound=Response)
S = TypeVar("S", bound=Struct)


class HungUpError(Exception):
    """Ends a connection without an answer: the client has left, the broker stops, or the request cannot be read."""


@dataclass(eq=False)
class Session:
    """The brokers' knowledge of one connection; a key of `Waiters`, which the end of the connection wakes.

    :param login: by SASL; None: the brokers ask for none
    """

    login: Login | None = None
    #: Whether the connection has ended, or shall end.
    is_closed: bool = False
    #: Called once when it ends, with the lock held.
    on_closed: list[Callable[[], object]] = field(default_factory=list)
    #: The name in the client's certificate; None: it has sent none.
    certified: str | None = None

    @property
    def principal(self) -> str:
        """The client as ACLs name it: "User:alice"."""
        return f"User:{self.user}"

    @property
    def user(self) -> str:
        """The client as quotas name it."""
        return (None if self.login is None else self.login.user) or self.certified or "ANONYMOUS"


@dataclass(eq=False, slots=True)
class Call:
    """One request, for the function that answers it. That function holds the lock of the cluster's state.

    :param state: what all brokers of the cluster know
    :param node: the broker that was asked
    :param session: the connection
    :param request: as decoded
    :param version: of the request
    :param client_id: as the client calls itself
    """

    state: ClusterState
    node: Node
    session: Session
    request: Request[Any]
    version: int
    client_id: str | None
    #: Of the request as it came (bytes).
    size: int = 0
    #: For how long the client shall not ask again (ms); an answer with such a field says so.
    throttle_ms: int = 0
    #: How much later the answer is sent (ms); the next request is read meanwhile, as on a long line.
    delay_ms: int = 0
    #: Whether the connection ends in the middle of the answer.
    is_cut_short: bool = False
    #: Whether it ends behind the answer.
    is_last: bool = False
    #: Changes the bytes of the answer, its length included: a hook sets it, for what no broker should send.
    damage: Callable[[bytes], bytes] | None = None

    def charge(self, key: str, amount: float, *, may_refuse: bool = False) -> int:
        """Use up some of a quota of the client, and return how long it has to wait (ms), which the answer will say.

        :param key: of the quota
        :param amount: bytes, or partitions
        :param may_refuse: whether a client that has used up all gets nothing, and has to wait; another gets what it wants
        """
        user, client = self.session.user, self.client_id or ""
        wait_ms = self.state.quotas.charge(key, user, client, amount, may_refuse=may_refuse)
        self.throttle_ms = max(self.throttle_ms, wait_ms)
        return wait_ms

    def wait(self, ready: Callable[[], bool], timeout_ms: int, *keys: Hashable) -> bool:
        """Wait until something is so, and return whether it is; the lock is free during the wait.

        :param ready: asked at the start, at the end, and each time that one of the keys is woken (`state.waiters.wake`)
        :param timeout_ms: how long (ms)
        :param keys: what the answer depends on, such as a partition or ("group", name)
        :raises HungUpError: the broker stopped, or the connection was cut
        """
        session = self.session
        until_ms = self.state.waiters.now_ms() + timeout_ms
        done = self.state.waiters.wait(lambda: session.is_closed or ready(), until_ms, session, *keys)
        if session.is_closed:
            raise HungUpError
        return done


#: Answers a request; None sends no answer.
Answer = Callable[[Call, Any], Response | None]


class Api(NamedTuple):
    """An API that fake brokers have.

    :param request: the class of its requests
    :param versions: those that they speak
    :param answer: what answers
    """

    request: type[Request[Any]]
    versions: range
    answer: Answer


#: By the API's key. Each module of `pykafka.testing.apis` adds its own.
APIS: dict[int, Api] = {}


def api(
    request: type[Request[R]], lowest: int | None = None, highest: int | None = None
) -> Callable[[Callable[[Call, Any], R | None]], Callable[[Call, Any], R | None]]:
    """Register a function as the answer to an API; an error that it raises is that of the whole response.

    :param request: the class of its requests
    :param lowest: the lowest version that it answers; None: of the class
    :param highest: the highest one; None: of the class
    """
    first = request.min_version if lowest is None else lowest
    last = request.max_version if highest is None else highest

    def register(answer: Callable[[Call, Any], R | None]) -> Callable[[Call, Any], R | None]:
        def answered(call: Call, content: Any) -> Response | None:
            try:
                return answer(call, content)
            except ProtocolClientError as error:
                if not _has_field(request.response, "error_code"):
                    raise
                return refuse(request.response(), error)

        APIS[request.api_key] = Api(request, range(first, last + 1), answered)
        return answer

    return register


def message_of(error: ProtocolClientError) -> str:
    """Return what a broker says with an error's code."""
    return " ".join(map(str, error.args))


def refuse(result: S, error: ProtocolClientError, without_text: str | None = "") -> S:
    """Put an error, and what a broker says with it, into a result, and return that.

    :param result: a response, or its part for what has failed
    :param error: why it has
    :param without_text: what the broker says if the error has no text
    """
    result.error_code = error.ERROR_CODE  # type: ignore[attr-defined]  # all results have it
    if _has_field(type(result), "error_message"):
        result.error_message = message_of(error) or without_text  # type: ignore[attr-defined]  # looked up just now
    return result


@contextmanager
def refusing(result: Struct, without_text: str | None = "") -> Iterator[None]:
    """Put an error that the block raises into a result; as `refuse`."""
    try:
        yield
    except ProtocolClientError as error:
        refuse(result, error, without_text)


def _has_field(struct: type[Struct], name: str) -> bool:
    return any(field.name == name for field in struct.fields)


def spoken(versions: Mapping[int, range]) -> dict[int, range]:
    """Return what fake brokers speak of the versions that a release does.

    :param versions: by API key
    """
    found = {}
    for key, told in versions.items():
        known = APIS.get(key)
        if known is not None:
            both = range(max(told[0], known.versions[0]), min(told[-1], known.versions[-1]) + 1)
            if both:
                found[key] = both
    return found
