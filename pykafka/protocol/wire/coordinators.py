"""Coordinators of groups and transactions."""

from __future__ import annotations

from typing import Self

from pykafka.protocol.fields import array, int8, int16, int32, string
from pykafka.protocol.schema import Request, Response, Struct


class FindCoordinatorResponse(Response, api_key=10, versions="0-6", flexible="3+", early="2+"):
    """Coordinators; from version 4 on, one per key."""

    class Coordinator(Struct):
        """The coordinator of one key."""

        key: str = string("4+")
        node_id: int = int32("4+")
        host: str = string("4+")
        port: int = int32("4+")
        error_code: int = int16("4+")
        error_message: str | None = string("4+", nullable="4+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


class FindCoordinatorRequest(Request[FindCoordinatorResponse], api_key=10, versions="0-6", flexible="3+"):
    """A request for coordinators of groups (key_type 0) or transactions (1); of several from version 4 on (KIP-699)."""

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array("string", "4+")

    def prepared(self, version: int) -> Self:
        """Return the same request in the form of the version: one `key` before 4, `coordinator_keys` from 4 on."""
        if version >= 4 and self.key and not self.coordinator_keys:
            return type(self)(key_type=self.key_type, coordinator_keys=[self.key])
        if version < 4 and not self.key and len(self.coordinator_keys) == 1:
            return type(self)(key_type=self.key_type, key=self.coordinator_keys[0])
        return self
