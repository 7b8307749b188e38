"""`Quotas`: how fast users and clients may write, read and change topics (KIP-13, KIP-546, KIP-599)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pykafka.exceptions import InvalidRequest

USER, CLIENT, IP = "user", "client-id", "ip"
PRODUCE, FETCH, MUTATE = "producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate"
#: What can be set; request_percentage and connections are described only.
KEYS: Final = {PRODUCE, FETCH, MUTATE, "request_percentage"}
_OF_ADDRESSES: Final = {"connection_creation_rate"}
_WHOLE: Final = {PRODUCE, FETCH, *_OF_ADDRESSES}
#: For how long the rate may have been used in advance (s): brokers look at ten seconds.
_WINDOW_S: Final = 10.0

#: Whom a quota is for: a user, a client id or both, or an address; None is the default of all that have no own one.
Entity = frozenset[tuple[str, str | None]]


class Quotas:
    """The quotas that were set, and a token bucket of ten seconds for each one in use.

    :param now_ms: returns the cluster's time (ms)
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        #: By entity and key.
        self.values: dict[Entity, dict[str, float]] = {}
        # By key, user and client id, as far as the quota tells them apart: how much was used more than refilled, and when.
        self._used: dict[tuple[str, str | None, str | None], tuple[float, int]] = {}

    def check(self, entity: Entity, key: str, value: float | None) -> None:
        """Raise the error of a quota that cannot be set.

        :param value: None: it is removed
        :raises InvalidRequest: there is no such entity, key or value
        """
        types = {kind for kind, _ in entity}
        if not types or not (types <= {USER, CLIENT} or types == {IP}):
            raise InvalidRequest(f"Invalid client quota entity: {', '.join(sorted(types)) or 'it is empty'}")
        if key not in (_OF_ADDRESSES if types == {IP} else KEYS):
            raise InvalidRequest(f"Invalid configuration key {key}")
        if any(
            (name is not None and not name.strip()) or (kind == IP and " " in (name or "")) for kind, name in entity
        ):
            raise InvalidRequest(f"Empty {', '.join(sorted(types))} not supported")
        if value is not None and (value <= 0 or (key in _WHOLE and value != int(value))):
            raise InvalidRequest(f"Quota {key} must be greater than 0, and whole if it counts bytes: {value}")

    def set(self, entity: Entity, key: str, value: float | None) -> None:
        """Set a quota.

        :param entity: whom it is for
        :param key: of the quota
        :param value: per second; None: there is none
        """
        values = self.values.setdefault(entity, {})
        values.pop(key, None)
        if value is not None:
            values[key] = value
        if not values:
            del self.values[entity]

    def restore(self, values: dict[Entity, dict[str, float]]) -> None:
        """Set these quotas and no others; those that have changed begin with nothing used."""
        if values != self.values:
            self._used.clear()
            self.values = {entity: dict(rates) for entity, rates in values.items()}

    def limit(self, key: str, user: str, client: str) -> tuple[float, str | None, str | None] | None:
        """Return the quota that counts for a request, and whose bucket that is; None: there is no quota."""
        for entity in _by_precedence(user, client) if self.values else ():
            rate = self.values.get(entity, {}).get(key)
            if rate is not None:
                types = {kind for kind, _ in entity}
                return rate, user if USER in types else None, client if CLIENT in types else None
        return None

    def window(self, key: str, user: str, client: str) -> float | None:
        """Return how much a request may be at most; None: there is no quota."""
        found = self.limit(key, user, client)
        return None if found is None else found[0] * _WINDOW_S

    def charge(self, key: str, user: str, client: str, amount: float, *, may_refuse: bool = False) -> int:
        """Use up some of a quota, and return how long the client has to wait for that (ms).

        :param key: of the quota
        :param user: name of the user
        :param client: id of the client
        :param amount: bytes, or partitions
        :param may_refuse: whether a client that has used up all gets nothing, and has to wait; another gets what it wants
        """
        found = self.limit(key, user, client)
        if found is None:
            return 0
        rate, now_ms = max(found[0], 1e-9), self._now_ms()
        bucket = key, found[1], found[2]
        used, since_ms = self._used.get(bucket, (0.0, now_ms))
        used = max(0.0, used - rate * (now_ms - since_ms) / 1000)
        if not may_refuse:
            used += amount
        # The field of the answer has 32 bits.
        wait_ms = min(int(1000 * max(0.0, used / rate - _WINDOW_S)), 2**31 - 1)
        if may_refuse and not wait_ms:
            used += amount
        self._used[bucket] = used, now_ms
        return wait_ms


def _by_precedence(user: str, client: str) -> Iterator[Entity]:
    for own in ((USER, user), (USER, None)):
        yield from (frozenset({own, (CLIENT, client)}), frozenset({own, (CLIENT, None)}), frozenset({own}))
    yield from (frozenset({(CLIENT, client)}), frozenset({(CLIENT, None)}))
