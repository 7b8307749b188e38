"""`Dialect`: the API versions that one broker speaks, asked over its connections, and asked again where they are in doubt."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.exceptions import KafkaException, SocketDisconnectedError, UnsupportedVersion
from pykafka.network.negotiation import ASK_AGAIN_MAX_S, ASK_AGAIN_S, KnownVersions, negotiate
from pykafka.protocol import versions

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.network.channel import Channel
    from pykafka.network.connection import BrokerConnection
    from pykafka.protocol.schema import Request
    from pykafka.protocol.versions import ApiRanges

log = logging.getLogger(__name__)

#: How long a connect may take that only finds out whether a broker is newer than the client thought (ms).
ASK_AGAIN_CONNECT_MS = 3000


class Speaker(Protocol):
    """The broker that speaks; `Node` says what each member does."""

    @property
    def id(self) -> int: ...
    @property
    def address(self) -> str: ...
    @property
    def socket_timeout_ms(self) -> int: ...
    def channel(self, name: str) -> Channel: ...
    def warn(self, text: str, *args: object) -> None: ...


class Dialect:
    """The API versions of one broker.

    State: single stores; `prepare` runs under the lock of the channel that connects.

    :param speaker: the broker
    :param handler: supplies the clock
    :param client_id: how the broker's logs and quotas know this client
    :param known_versions: what the brokers of its cluster were found to speak, shared by them
    :param given: what the broker speaks where the caller knows it, {API key: (..., lowest, highest)}; it is not asked then
    """

    def __init__(
        self,
        speaker: Speaker,
        handler: Handler,
        client_id: str,
        known_versions: KnownVersions,
        given: Mapping[int, tuple[int, ...]] | None,
    ) -> None:
        self._speaker = speaker
        self._handler = handler
        self._client_id = client_id
        self._known_versions = known_versions
        self._is_given = given is not None
        #: The answer: {API key: (lowest version, highest version)}; None before there is one.
        self.found: ApiRanges | None = None
        if given is not None:
            # an ApiVersionsSpec, too, ends with these two
            self.found = {key: (known[-2], known[-1]) for key, known in given.items()}
        # Whether the next connection asks.
        self._doubted = False
        # The answer that the broker has given twice.
        self._confirmed: ApiRanges | None = None
        self._ask_again_at = 0.0
        self._ask_again_s = ASK_AGAIN_S
        # The versions that were chosen by an answer.
        self._chosen: tuple[ApiRanges | None, dict[Any, int]] = (None, {})

    # -- asking ----------------------------------------------------------------------------------------------------

    def prepare(self, connection: BrokerConnection) -> None:
        """Ask over a new connection, unless the versions are certain.

        :raises KafkaException: the broker gave no answer
        """
        if self.certain() is None:
            self._doubted = False
            try:
                self._negotiate(connection)
            except BaseException:
                self._doubted = True
                raise

    def certain(self) -> ApiRanges | None:
        """Return the versions, if they need not be asked for at the next connect."""
        if self._is_given:
            return self.found
        # an address that did not come from metadata may lead to another broker each time
        doubtful = self._doubted or self._speaker.id < 0 or self._is_to_be_asked_again()
        return None if doubtful else self.found

    def _negotiate(self, connection: BrokerConnection) -> None:
        id_, address = self._speaker.id, self._speaker.address
        # a broker that took a login is newer
        hang_ups = None if connection.logs_in else self._known_versions.hang_ups(id_, address)
        # whoever connects in a hurry has no more time for the versions
        timeout_ms = min(self._speaker.socket_timeout_ms, connection.timeout_ms)
        first_versions = self._known_versions.first_versions
        ranges = negotiate(connection, self._handler, timeout_ms, self._client_id, hang_ups, first_versions)
        self._known_versions.learn(id_, address, ranges)
        if ranges is versions.RANGES_0_8_2:
            self._ask_again_at = self._handler.now() + self._ask_again_s
            self._ask_again_s = min(2 * self._ask_again_s, ASK_AGAIN_MAX_S)
        self.found = ranges

    def _is_to_be_asked_again(self) -> bool:
        """Return whether the broker was taken for 0.8.2, and that a while ago."""
        return self.found is versions.RANGES_0_8_2 and self._handler.now() >= self._ask_again_at

    def doubt(self) -> None:
        """Ask anew at the next connect: another version may run there now. Until it answers, its last answer holds."""
        self._doubted = True

    def _ask_again(self) -> None:
        """Ask a broker that was taken for 0.8.2, over a connection that nobody else uses."""
        self._ask_again_at = self._handler.now() + self._ask_again_s  # for others; it is set anew with the answer
        try:
            self._ask_over("probe", ASK_AGAIN_CONNECT_MS)
        except KafkaException as error:
            log.info("broker %s cannot be asked for its versions again now: %s", self._speaker.address, error)

    def _ask_over(self, name: str, timeout_ms: int | None) -> None:
        """Ask over a connection that nobody else uses."""
        channel = self._speaker.channel(name)
        channel.drop()
        self._doubted = True
        channel.open(timeout_ms)
        channel.drop()

    def _contradicts_itself(self) -> bool:
        """Ask once more, unless the broker has given its answer twice; return whether it gives another one now.

        An answer that was damaged on its way, or that a proxy gave in the broker's place, would otherwise be believed until
        a connection is lost.

        :raises KafkaException: the broker cannot be asked
        """
        before = self.found
        if self._is_given or before is None or before == self._confirmed or before is versions.RANGES_0_8_2:
            return False  # 0.8.2 took many connections to be recognised, and is asked again from time to time
        self._ask_over("probe", None)
        if self.found == before:
            self._confirmed = self.found
            return False
        self._speaker.warn(
            "broker %s says now that it speaks other versions than it has said before", self._speaker.address
        )
        return True

    # -- choosing --------------------------------------------------------------------------------------------------

    def ranges(self) -> ApiRanges:
        """Return {API key: (lowest version, highest version)}, connecting where no answer is there yet."""
        if self.found is None:
            self._speaker.channel("main").open()
        elif self._is_to_be_asked_again() and not self._is_given:
            self._ask_again()
        found = self.found
        if found is None:  # the connection was made before this process was forked
            raise SocketDisconnectedError(
                "the connection was lost while its versions were asked for", broker=self._speaker.address
            )
        return found

    def choose(self, request_cls: type[Request[Any]], ceiling: int | None = None) -> int:
        """Return the highest version that broker and client have; "none" is believed when the broker has said so twice.

        :param ceiling: no version above this one
        :raises UnsupportedVersion: there is none
        """
        answer, chosen = self._chosen
        if answer is not None and answer is self.found:
            version = chosen.get((request_cls, ceiling))
            if version is not None:
                return version
        try:
            return self._choose(request_cls, ceiling)
        except UnsupportedVersion:
            if not self._contradicts_itself():
                raise
        return self._choose(request_cls, ceiling)

    def _choose(self, request_cls: type[Request[Any]], ceiling: int | None) -> int:
        ranges = self.ranges()
        version = versions.choose(request_cls, ranges, ceiling=ceiling, broker=self._speaker.address)
        if ranges is not versions.RANGES_0_8_2:  # such a broker is asked again from time to time
            answer, chosen = self._chosen
            if answer is not ranges:
                chosen = {}
                self._chosen = (ranges, chosen)
            chosen[request_cls, ceiling] = version
        return version

    def has(self, request_cls: type[Request[Any]]) -> bool:
        """Return whether the broker has an API, in whatever version; as in `choose`, it must deny that twice."""
        return request_cls.api_key in self.ranges() or (
            self._contradicts_itself() and request_cls.api_key in self.ranges()
        )

    def check(self, request_cls: type[Request[Any]], version: int) -> None:
        """Check that a version that was chosen for an earlier connection is spoken at this one, too.

        :raises SocketDisconnectedError: it is not
        """
        low, high = versions.common_range(request_cls, self.ranges()) or (0, -1)
        if not low <= version <= high:
            raise SocketDisconnectedError(
                f"the broker has been replaced by one that does not speak version {version}; the request has to be made anew",
                broker=self._speaker.address,
                api=request_cls.__name__,
            )
