"""`Faults`: what is set up to go wrong with the next requests, and what was received."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.exceptions import FetchSessionIdNotFound, InvalidFetchSessionEpoch, KafkaException
from pykafka.protocol import wire
from pykafka.testing.arguments import duration, whole
from pykafka.testing.authorization import authorized
from pykafka.testing.call import Call, HungUpError
from pykafka.testing.fetch_sessions import wanted_of
from pykafka.testing.names import api_name
from pykafka.testing.outdated import Isolated
from pykafka.testing.refusals import refusal

if TYPE_CHECKING:
    from pykafka.protocol.schema import Request, Response
    from pykafka.testing.call import Api
    from pykafka.testing.state import ClusterState

#: Where a connection may be cut: before the request is carried out, within its answer, or instead of the answer.
PLACES = ("before", "middle", "after")
#: Errors of a Fetch as a whole; others are those of its partitions.
_OF_SESSIONS = (FetchSessionIdNotFound.ERROR_CODE, InvalidFetchSessionEpoch.ERROR_CODE)
#: How long a wait may take that ends when a test says so, or with the cluster (ms): a year.
FOREVER_MS = 365 * 24 * 3600 * 1000

#: Whether a fault is for a request.
When = Callable[["Request[Any]"], bool]
#: Called for each request: returns a response that the client gets instead of the broker's, or None.
OnRequest = Callable[[Call], "Response | None"]
#: Called for each answer: returns a response that the client gets instead, or None.
OnAnswer = Callable[[Call, "Response"], "Response | None"]


class FakeClusterError(KafkaException):
    """Raised when a fake cluster cannot do something: it is closed, or has no such topic, partition or replica.

    `close()` raises it for a test's function that has raised an error.
    """


class ClusterClosedError(FakeClusterError):
    """Raised for a call of a cluster that is closed, or that was started by the parent of this process."""


class Received(NamedTuple):
    """One request that a broker received.

    :param broker: its number
    :param api_key: of the request
    :param version: of the request
    :param client_id: as the client calls itself
    :param timestamp_us: when it came (microseconds since 1970, by the cluster's clock)
    """

    broker: int
    api_key: int
    version: int
    client_id: str | None
    timestamp_us: int

    @property
    def api(self) -> str:
        """The name of the API; its number as text if it has none here."""
        return api_name(self.api_key)


class Fault:
    """Something that happens to requests of one API.

    :param state: of the cluster
    :param key: the API's
    :param broker: the broker that it happens at; None: at each
    :param when: for which requests; None: for all
    :param times: for how many requests; None: until `end`
    """

    def __init__(
        self,
        state: ClusterState,
        key: int,
        broker: int | None = None,
        when: When | None = None,
        times: int | None = None,
    ) -> None:
        self._state = state
        self.key = key
        self.broker = broker
        self.when = when
        #: For how many further requests; None: until `end`.
        self.left = times
        #: How many requests have met it.
        self.met = 0

    def __repr__(self) -> str:
        where = "" if self.broker is None else f" at broker {self.broker}"
        return f"<{type(self).__name__} {api_name(self.key)}{where}: {self.met} met, {self.left} to come>"

    def end(self) -> None:
        """End the fault: it meets no further request."""
        with self._state.lock:
            self.left = 0
            self._state.waiters.wake(self)

    def await_met(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until requests have met it.

        :param count: how many
        :param timeout: how long (s)
        :raises TimeoutError: fewer have met it by then
        """
        state, wanted, left_ms = self._state, whole("count", count), int(duration("timeout", timeout) * 1000)
        with state.lock:
            until_ms = state.now_ms() + left_ms
            if not state.waiters.wait(lambda: self.met >= wanted, until_ms, self):
                raise TimeoutError(f"{self.met} of {count} requests have met {self!r} after {timeout} s")

    def meets(self, call: Call) -> bool:
        """Return whether it happens to this request, which counts as met then."""
        if (
            self.left == 0
            or call.request.api_key != self.key
            or self.broker not in (None, call.node.node_id)
            or not self._is_for(call)
            or self.left == 0
        ):
            return False
        self.met += 1
        if self.left is not None:
            self.left -= 1
        self._state.waiters.wake(self)
        return True

    def _is_for(self, call: Call) -> bool:
        """Ask the test's function, without the lock, so that it can use the cluster."""
        if self.when is None:
            return True
        self._state.lock.release()
        try:
            return self.when(call.request)
        finally:
            self._state.lock.acquire()

    def answer(self, call: Call, api: Api) -> Response | None:
        """Answer the request, with what goes wrong; the caller holds the lock."""
        return authorized(call, api)


class Failure(Fault):
    """The request is not carried out; its answer has an error.

    :param code: of the error; 0: there is none, so this request succeeds
    :param latency_ms: how much later it is answered (ms)
    """

    def __init__(self, *arguments: Any, code: int, latency_ms: int = 0) -> None:
        super().__init__(*arguments)
        self.code = code
        self.latency_ms = latency_ms

    def answer(self, call: Call, api: Api) -> Response | None:
        """Return an answer with the error. As `Fault.answer`."""
        call.delay_ms += self.latency_ms
        request = call.request
        if not self.code:
            return authorized(call, api)
        if isinstance(request, wire.ProduceRequest) and request.acks == 0:
            raise HungUpError  # all that a broker can do without an answer
        if isinstance(request, wire.MetadataRequest):
            return self._of_topics(authorized(call, api))
        if isinstance(request, wire.FetchRequest) and self.code not in _OF_SESSIONS:
            return self._of_partitions(call, request, api)
        return refusal(request, call.version, self.code)

    def _of_partitions(self, call: Call, request: wire.FetchRequest, api: Api) -> Response | None:
        """Put the error at each partition of the request or of its session, which goes on."""
        request.max_wait_ms = 0
        response = authorized(call, api)
        if not isinstance(response, wire.FetchResponse) or response.error_code:
            return response
        sessions = call.state.fetch_sessions.get(call.node.node_id)
        session = sessions[1].by_id.get(response.session_id) if sessions is not None else None
        topics: dict[object, wire.FetchResponse.Topic] = {}
        for wanted in session.wanted.values() if session is not None else wanted_of(request):
            wanted.high_watermark = -1
            topic = topics.get(wanted.topic)
            if topic is None:
                topic = topics[wanted.topic] = wire.FetchResponse.Topic(topic=wanted.name, topic_id=wanted.topic_id)
            topic.partitions.append(
                wire.FetchResponse.Topic.Partition(
                    partition_index=wanted.asked.partition, error_code=self.code, high_watermark=-1, records=b""
                )
            )
        response.responses = list(topics.values())
        return response

    def _of_topics(self, response: Response | None) -> Response | None:
        """Put the error at each topic: a client needs brokers and topics, whatever their state."""
        if isinstance(response, wire.MetadataResponse):
            for topic in response.topics or ():
                topic.error_code = self.code
                topic.partitions = []
        return response


class Cut(Fault):
    """The connection ends.

    :param place: one of `PLACES`
    :param latency_ms: how much later (ms)
    """

    def __init__(self, *arguments: Any, place: str, latency_ms: int = 0) -> None:
        super().__init__(*arguments)
        self.place = place
        self.latency_ms = latency_ms

    def answer(self, call: Call, api: Api) -> Response | None:
        """Answer as far as the place says. As `Fault.answer`.

        :raises HungUpError: the place is not the middle of the answer
        """
        if self.latency_ms:
            call.wait(bool, self.latency_ms)
        if self.place == "before":
            raise HungUpError
        response = authorized(call, api)
        if self.place == "after" or response is None:
            raise HungUpError
        call.is_cut_short = True
        return response


class Throttle(Fault):
    """The broker reads nothing from the connection for a time, after its answer (KIP-219).

    :param milliseconds: how long (ms)
    """

    def __init__(self, *arguments: Any, milliseconds: int) -> None:
        super().__init__(*arguments)
        self.milliseconds = milliseconds


class Hold(Fault):
    """Requests are carried out; their answers wait until `release`. As a context manager it releases them at the end."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_released = False

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the answers, and hold no further ones."""
        with self._state.lock:
            self.is_released = True
            self.left = 0
            self._state.waiters.wake(self)

    def wait(self, call: Call) -> None:
        """Wait until the test releases the answer; the caller holds the lock, which is free meanwhile.

        :raises HungUpError: the connection is cut, or the broker stops
        """
        while not call.wait(lambda: self.is_released, FOREVER_MS, self):
            pass


class Faults:
    """The faults of a cluster, in the order in which they were set up. The holder of the state's lock calls its methods.

    :param state: of the cluster
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        #: Failures and cuts: a request meets the first one that is for it.
        self.outcomes: list[Fault] = []
        #: Throttles and holds: a request meets all that are for it.
        self.conditions: list[Fault] = []
        #: How much later each broker answers (ms).
        self.latencies: dict[int, int] = {}
        self.on_request: list[OnRequest] = []
        self.on_answer: list[OnAnswer] = []
        #: The brokers that are cut off from the controller.
        self.isolated = Isolated(state)
        #: What changes answers for the cluster itself, such as the errors of topics; in this order.
        self.overlays: list[Callable[[Call, Response], None]] = []
        #: The first error of a test's function or of a broker itself, and what to do about it.
        self.first_error: tuple[str, BaseException] | None = None
        #: Whether `raise_first` has raised one: the same function may fail again for requests under way.
        self.has_raised = False
        #: The requests since tracking began; None: they are not tracked.
        self.received: list[Received] | None = None

    def add(self, fault: Fault) -> None:
        """Set a fault up, and forget those that have ended."""
        faults = self.outcomes if isinstance(fault, (Failure, Cut)) else self.conditions
        faults[:] = [*(one for one in faults if one.left != 0), fault]

    def failed(self, call: Call, error: BaseException) -> None:
        """Report an error of a test's function, or of the broker itself; `raise_first` raises the first one."""
        where = f"broker {call.node.node_id} answered {api_name(call.request.api_key)}"
        self._state.handler.report(f"a function that was called when fake {where}", error)
        text = f"{error!r} was raised when {where}, so the client got UNKNOWN_SERVER_ERROR: correct the function"
        self._keep_error(text, error)

    def unwritable(self, call: Call, error: BaseException) -> None:
        """Report an answer that the version of its request cannot express; `raise_first` raises the first one."""
        where = f"fake broker {call.node.node_id} to {api_name(call.request.api_key)} version {call.version}"
        self._state.handler.report(f"the answer of {where}", error)
        text = (
            f"the answer of {where} cannot be written, so the client got UNKNOWN_SERVER_ERROR: {error}. Correct the hook "
            "that made the answer; if none did, this is a defect of the fake cluster: report it"
        )
        self._keep_error(text, error)

    def _keep_error(self, text: str, error: BaseException) -> None:
        if not self.has_raised:
            self.first_error = self.first_error or (text, error)

    def raise_first(self) -> None:
        """Raise the first error that was reported, if there is one; later ones are in the log only.

        :raises FakeClusterError: its cause is that error
        """
        reported, self.first_error = self.first_error, None
        if reported is not None:
            self.has_raised = True
            text, error = reported
            raise FakeClusterError(text) from error

    def around(self, call: Call, api: Api) -> Response | None:
        """Answer a request, with what is set up for it.

        :raises HungUpError: the connection is cut
        """
        if self.received is not None:
            node_id, now_us = call.node.node_id, self._state.now_ms() * 1000
            self.received.append(Received(node_id, api.request.api_key, call.version, call.client_id, now_us))
        call.delay_ms = self.latencies.get(call.node.node_id, 0)
        given = self._ask(self.on_request, call) if self.on_request else None
        call.state = self.isolated.believed(call)
        response = given if given is not None else self._outcome(call, api)
        if response is not None:
            for overlay in self.overlays:
                overlay(call, response)
            if self.on_answer:
                response = self._ask(self.on_answer, call, response) or response
        for condition in [fault for fault in list(self.conditions) if fault.meets(call)]:
            self._apply(condition, call)
        return response

    def _outcome(self, call: Call, api: Api) -> Response | None:
        for fault in list(self.outcomes):
            if fault.meets(call):
                if fault.left == 0 and fault in self.outcomes:
                    self.outcomes.remove(fault)
                return fault.answer(call, api)
        return authorized(call, api)

    def _ask(self, hooks: list[Any], call: Call, *response: Response) -> Response | None:
        """Call the hooks without the lock, so that they can use the cluster; the last response that one returns counts."""
        given = None
        self._state.lock.release()
        try:
            for hook in list(hooks):
                given = hook(call, *response) or given
        except ClusterClosedError as error:  # while the hook ran, which could not know
            raise HungUpError from error
        finally:
            self._state.lock.acquire()
        if call.session.is_closed:
            raise HungUpError
        return given

    def _apply(self, condition: Fault, call: Call) -> None:
        if isinstance(condition, Throttle):
            call.throttle_ms = max(call.throttle_ms, condition.milliseconds)
        elif isinstance(condition, Hold):
            condition.wait(call)
