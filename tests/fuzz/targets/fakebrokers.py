"""The brokers of the fake cluster: whatever a request says, it is answered in its version, or ends its connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pykafka.testing.apis  # noqa: F401  (registers them)
from pykafka.exceptions import KafkaException
from pykafka.protocol import wire
from pykafka.protocol.primitives import Cursor
from pykafka.protocol.schema import Request, Response, Struct
from pykafka.testing.call import APIS, Call, HungUpError, Session
from pykafka.testing.faults import Faults
from pykafka.testing.sasl import LoginRefusedError
from pykafka.testing.state import ClusterState, Node
from pykafka.testing.topics import Topic
from tests.fuzz.judge import Target, UnstableError
from tests.fuzz.targets.records import _batch
from tests.support.instances import Instances
from tests.testing.direct import StillHandler

_REQUESTS_MAX = 4
_KEYS = sorted(APIS)
_TOPIC_ID = UUID(int=7)


class _JumpingEvent(threading.Event):
    """An event whose wait takes no time: the clock of its handler jumps to the end of the wait.

    :param handler: has the clock
    """

    def __init__(self, handler: _JumpingHandler) -> None:
        super().__init__()
        self._handler = handler

    def wait(self, timeout: float | None = None) -> bool:
        """Move the clock; return whether the event is set."""
        self._handler.seconds += timeout or 0.0
        return self.is_set()


class _JumpingHandler(StillHandler):
    """A clock that only waits move, and the same random numbers for each input."""

    seconds = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.random.seed(0)

    def now(self) -> float:
        return self.seconds

    def Event(self) -> _JumpingEvent:
        return _JumpingEvent(self)


def _cluster() -> ClusterState:
    """Return the state of a cluster of two brokers, whose waits take no time."""
    state = ClusterState(_JumpingHandler())
    for number in (1, 2):
        node = state.nodes[number] = Node(number)
        node.is_up = True
    topic = Topic("t", _TOPIC_ID, [[1, 2], [2, 1]])
    state.topics["t"] = state.topic_ids[topic.id] = topic
    state.versions = {key: api.versions for key, api in APIS.items()}
    return state


def brokers(data: bytes) -> object:
    """Ask a broker up to four requests over one connection.

    A request has its API and version in two bytes, the size of its body in two, and the body.
    """
    state, session = _cluster(), Session()
    faults, at, said = Faults(state), 0, list[str]()
    while at + 4 <= len(data) and len(said) < _REQUESTS_MAX:
        key = _KEYS[data[at] % len(_KEYS)]
        api = APIS[key]
        version = api.versions[data[at + 1] % len(api.versions)]
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        body = data[at + 4 : at + 4 + size]
        at += 4 + size
        # Bytes behind a request are ignored, as by the connections of the cluster.
        request = api.request.read(Cursor(memoryview(body)), version)
        call = Call(state, state.nodes[1], session, request, version, "fuzz")
        call.size = len(body)
        try:
            with state.lock:
                answer = faults.around(call, api)
        except (HungUpError, LoginRefusedError):
            said.append("hung up")
            break
        except Exception as error:
            # To a client it is an unknown error, and the cluster reports it as a defect of its own.
            raise UnstableError(f"{api.request.__name__} {version}: {type(error).__name__}: {error}") from error
        said.append(_checked(request, version, answer))
    return said


def _checked(request: Request[Any], version: int, answer: Response | None) -> str:
    """Return an answer as text, after it has gone through its bytes.

    :raises UnstableError: it cannot be written in the version of the request
    """
    if answer is None:
        return "nothing"
    try:
        written = answer.encode(version)
        answer.decode(written, version)
    except KafkaException as error:
        raise UnstableError(f"the answer to {type(request).__name__} {version}: {error}") from error
    return written.hex()


def _asked(request: Request[Any], version: int) -> bytes:
    api = APIS[request.api_key]
    body = request.encode(version)
    return bytes([_KEYS.index(request.api_key), api.versions.index(version)]) + len(body).to_bytes(2, "big") + body


def _seeds() -> Iterator[bytes]:
    for key in _KEYS:
        api = APIS[key]
        for version in {api.versions[0], api.versions[len(api.versions) // 2], api.versions[-1]}:
            for made in (api.request(), _named(Instances(version).make(api.request, version))):
                try:
                    one = _asked(made, version)
                except KafkaException:  # a field that this version lacks
                    continue
                yield one
                yield one * 2
    parts = [wire.ProduceRequest.Topic.Partition(index=0, records=_batch(0))]
    produced = wire.ProduceRequest(acks=-1, topic_data=[wire.ProduceRequest.Topic(name="t", partition_data=parts)])
    wanted = [wire.FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1000)]
    fetched = wire.FetchRequest(max_bytes=1000, topics=[wire.FetchRequest.Topic(topic="t", partitions=wanted)])
    yield _asked(produced, 9) + _asked(fetched, 11)


def _named(message: Struct) -> Any:
    """Put the topic that exists, and a group, into random fields."""
    for field in message.fields:
        value = getattr(message, field.name)
        if field.kind == "struct":
            for one in value if isinstance(value, list) else [value]:
                if one is not None:
                    _named(one)
        elif field.name in ("name", "topic", "topic_name") and isinstance(value, str):
            setattr(message, field.name, "t")
        elif field.name == "topic_id":
            setattr(message, field.name, _TOPIC_ID)
        elif field.name in ("partition", "partition_index", "index"):
            setattr(message, field.name, 0)
        elif field.name == "group_id":
            setattr(message, field.name, "g")
        elif field.name == "member_id":
            setattr(message, field.name, "")
    return message


TARGETS = [Target("fake-brokers", brokers, _seeds, weight=3.0)]
