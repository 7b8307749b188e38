"""The release of Kafka that a broker runs, judged by its versions of APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.protocol.versions import ApiRanges

_PRODUCE, _FETCH, _LIST_OFFSETS, _LEADER_AND_ISR, _OFFSET_COMMIT, _OFFSET_FETCH = 0, 1, 2, 4, 8, 9
_JOIN_GROUP, _LIST_GROUPS, _ADD_PARTITIONS_TO_TXN, _DESCRIBE_ACLS, _DESCRIBE_LOG_DIRS = 11, 16, 24, 29, 35

#: The mark of each release: a version of an API that it was the first to support. Taken from the releases' own tables,
#: and verified with real brokers, with ZooKeeper and without.
_MARKS = (
    ("4.3", _DESCRIBE_LOG_DIRS, 5),
    ("4.2", _OFFSET_COMMIT, 10),
    ("4.1", _FETCH, 18),
    ("4.0", _PRODUCE, 12),
    ("3.9", _FETCH, 17),
    ("3.8", _PRODUCE, 11),
    ("3.7", _FETCH, 16),
    ("3.6", _ADD_PARTITIONS_TO_TXN, 4),
    ("3.5", _FETCH, 15),
    ("3.4", _LEADER_AND_ISR, 7),
    ("3.3", _DESCRIBE_ACLS, 3),
    ("3.2", _JOIN_GROUP, 9),
    ("3.1", _FETCH, 13),
    ("3.0", _LIST_OFFSETS, 7),
    ("2.8", _PRODUCE, 9),
    ("2.7", _FETCH, 12),
    ("2.6", _LIST_GROUPS, 4),
    ("2.5", _JOIN_GROUP, 7),
    ("2.4", _PRODUCE, 8),
    ("2.3", _FETCH, 11),
    ("2.2", _LIST_OFFSETS, 5),
    ("2.1", _FETCH, 10),
    ("2.0", _FETCH, 8),
    ("1.1", _FETCH, 7),
    ("1.0", _FETCH, 6),
    ("0.11", _FETCH, 5),
    ("0.10.2", _OFFSET_FETCH, 2),
    ("0.10.1", _FETCH, 3),
    ("0.10.0", _PRODUCE, 0),
)


def speaks_as(ranges: ApiRanges) -> str:
    """Return "Kafka 3.9", or several releases that a broker's versions do not distinguish.

    :param ranges: {api key: (lowest version, highest version)}
    """
    if wire.ApiVersionsRequest.api_key not in ranges:
        return "Kafka 0.9" if wire.JoinGroupRequest.api_key in ranges else "Kafka 0.8.2"
    release = next((name for name, key, version in _MARKS if ranges.get(key, (0, -1))[1] >= version), "0.10.0")
    if release == _MARKS[0][0]:
        return f"Kafka {release} or later"
    # 3.4 changed nothing except the requests from controllers to brokers with ZooKeeper; others do not list them.
    if release == "3.3" and _LEADER_AND_ISR not in ranges:
        return "Kafka 3.3 or 3.4"
    return f"Kafka {release}"
