"""`Witness`: notes what brokers answer that no program sees, so that `Sometimes` can count it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka.exceptions import (
    FencedInstanceId,
    FencedLeaderEpoch,
    FencedMemberEpoch,
    IllegalGeneration,
    InvalidProducerEpoch,
    MessageSizeTooLarge,
    ProducerFenced,
    UnknownMemberId,
)
from pykafka.protocol import wire
from pykafka.protocol.schema import Response
from pykafka.testing.call import Call
from pykafka.testing.history import History, Seen

TOO_LARGE = "a broker refuses a batch of several records, as it is too large"
PRODUCER = "a broker fences the epoch of a producer"
LEADER = "a broker fences the epoch of a leader"
MEMBER = "a coordinator fences a generation, or the epoch of a member"
REFERRED = "a leader refers a consumer to a closer replica"
#: Noted by the plan of faults itself.
THROTTLED = "an answer is throttled"
#: All that is noted.
SIGHTS = (TOO_LARGE, PRODUCER, LEADER, MEMBER, REFERRED, THROTTLED)

_PRODUCER_CODES = frozenset((InvalidProducerEpoch.ERROR_CODE, ProducerFenced.ERROR_CODE))
_LEADER_CODES = frozenset((FencedLeaderEpoch.ERROR_CODE,))
_MEMBER_CODES = frozenset(
    one.ERROR_CODE for one in (FencedInstanceId, FencedMemberEpoch, IllegalGeneration, UnknownMemberId)
)
#: Where the number of records is in a batch, and how many bytes that number has.
_COUNT_AT, _COUNT_SIZE = 57, 4


class Witness:
    """Notes each of `SIGHTS` once, when a broker first answers so.

    :param history: gets the notes
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._seen: set[str] = set()
        self._looks: dict[type[Response], Callable[[Any, Any], str | None]] = {
            wire.ProduceResponse: _of_produce,
            wire.FetchResponse: _of_fetch,
            wire.EndTxnResponse: _of_producer,
            wire.AddPartitionsToTxnResponse: _of_producer,
            wire.InitProducerIdResponse: _of_producer,
            wire.JoinGroupResponse: _of_member,
            wire.SyncGroupResponse: _of_member,
            wire.HeartbeatResponse: _of_member,
            wire.ConsumerGroupHeartbeatResponse: _of_member,
            wire.OffsetCommitResponse: _of_commit,
            wire.TxnOffsetCommitResponse: _of_commit,
        }

    def on_answer(self, call: Call, response: Response) -> None:
        """Look at an answer, before it is sent."""
        look = self._looks.get(type(response))
        sight = look(call.request, response) if look is not None else None
        if sight is not None and sight not in self._seen:
            self._seen.add(sight)
            self._history.note("cluster", Seen(sight))


def _of_produce(request: wire.ProduceRequest, response: wire.ProduceResponse) -> str | None:
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code in _PRODUCER_CODES:
                return PRODUCER
            if part.error_code == MessageSizeTooLarge.ERROR_CODE and _has_several(request):
                return TOO_LARGE
    return None


def _has_several(request: wire.ProduceRequest) -> bool:
    """Return whether a batch of a request has several records; those of old formats count as one."""
    for topic in request.topic_data:
        for part in topic.partition_data:
            counted = bytes(part.records or b"")[_COUNT_AT : _COUNT_AT + _COUNT_SIZE]
            if int.from_bytes(counted, "big") > 1:
                return True
    return False


def _of_fetch(_request: wire.FetchRequest, response: wire.FetchResponse) -> str | None:
    for topic in response.responses:
        for part in topic.partitions:
            if part.error_code in _LEADER_CODES:
                return LEADER
            if part.preferred_read_replica >= 0:
                return REFERRED
    return None


def _of_producer(_request: Any, response: Any) -> str | None:
    return PRODUCER if getattr(response, "error_code", 0) in _PRODUCER_CODES else None


def _of_member(_request: Any, response: Any) -> str | None:
    return MEMBER if response.error_code in _MEMBER_CODES else None


def _of_commit(_request: Any, response: Any) -> str | None:
    codes = (part.error_code for topic in response.topics for part in topic.partitions)
    return MEMBER if any(code in _MEMBER_CODES for code in codes) else None
