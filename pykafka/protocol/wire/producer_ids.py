"""Ids of idempotent and transactional producers."""

from __future__ import annotations

from pykafka.protocol.fields import boolean, int16, int32, int64, string
from pykafka.protocol.schema import Request, Response


class InitProducerIdResponse(Response, api_key=22, versions="0-6", flexible="2+", early="1+"):
    """A producer id and epoch."""

    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", -1)
    producer_epoch: int = int16("0+")
    ongoing_txn_producer_id: int = int64("6+", -1)
    ongoing_txn_producer_epoch: int = int16("6+", -1)


class InitProducerIdRequest(Request[InitProducerIdResponse], api_key=22, versions="0-6", flexible="2+"):
    """A request for a producer id (KIP-98), or for the next epoch of one (KIP-360, version 3)."""

    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", -1)
    producer_epoch: int = int16("3+", -1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")
