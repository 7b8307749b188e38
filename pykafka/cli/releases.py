"""Which release of Kafka a broker speaks as, judged by the versions that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.protocol.messages import ApiVersionsRequest, FetchRequest, JoinGroupRequest

if TYPE_CHECKING:
    from pykafka.protocol.versions import ApiRanges

#: The highest version of Fetch, and the release that brought it: no other API has changed so often.
_BY_FETCH = (
    (18, "4.1"),
    (17, "3.9"),
    (16, "3.7"),
    (15, "3.5"),
    (13, "3.1"),
    (12, "2.7"),
    (11, "2.3"),
    (10, "2.1"),
    (8, "2.0"),
    (7, "1.1"),
    (6, "1.0"),
    (5, "0.11"),
    (3, "0.10.1"),
    (0, "0.10.0"),
)


def speaks_as(ranges: ApiRanges) -> str:
    """Return "Kafka 3.9", or the next one older than what a broker speaks.

    :param ranges: {api key: (lowest version, highest version)}
    """
    if ApiVersionsRequest.api_key not in ranges:
        return "Kafka 0.9" if JoinGroupRequest.api_key in ranges else "Kafka 0.8.2"
    highest = ranges.get(FetchRequest.api_key, (0, 0))[1]
    return next(f"Kafka {release}" for version, release in _BY_FETCH if version <= highest)
