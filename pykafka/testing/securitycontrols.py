"""`SecurityControls`: what a test says about who may log in to a fake cluster, and what they may do there."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka.protocol import wire
from pykafka.testing.controls import Controls
from pykafka.testing.sasl import Sasl

#: Since these releases brokers have SCRAM, and OAUTHBEARER.
_SINCE = {"SCRAM-SHA-256": (0, 10, 2), "SCRAM-SHA-512": (0, 10, 2), "OAUTHBEARER": (2,)}


class SecurityControls(Controls):
    """Logins: a part of `FakeCluster`."""

    def _ask_for_logins(self, sasl: Mapping[str, str] | Sasl | None) -> None:
        if sasl is None:
            return
        chosen = sasl if isinstance(sasl, Sasl) else Sasl(sasl)
        played = self._state.release
        if wire.SaslHandshakeRequest.api_key not in self._state.versions:
            raise ValueError(f"Kafka {played.name} has logins by Kerberos at most, which fake brokers do not have")
        late = [name for name in chosen.mechanisms if played.numbers < _SINCE.get(name, ())]
        if late or not chosen.mechanisms:
            raise ValueError(f"Kafka {played.name} has no login by {late[0] if late else 'no mechanism: name one'}")
        self._state.sasl = chosen

    def set_password(self, user: str, password: str | None) -> None:
        """Set the password of a user, for PLAIN and SCRAM; connections of before stay until they log in again.

        :param password: None removes the user
        """
        with self._locked() as state:
            state.sasl.set_password(user, password)
