"""`catalog()`: every metric that a client can have, with unit and description. Those of Java's clients have Java's names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from pykafka.metrics.listener import TRANSACTION_STEPS
from pykafka.metrics.metric import COUNTER, GAUGE, HISTOGRAM


class Entry(NamedTuple):
    """A metric that can exist.

    :param group: as "producer-metrics"
    :param name: as "record-send-total"
    :param tags: its tags
    :param kind: GAUGE, COUNTER or HISTOGRAM
    :param unit: of the value
    :param description: one line
    :param java: whether Java's clients have it
    """

    group: str
    name: str
    tags: tuple[str, ...]
    kind: str
    unit: str
    description: str
    java: bool


#: How each end of a name is measured: (kind, unit; None: that of the row, what the description says of the row's thing).
ENDS: dict[str, tuple[str, str | None, str]] = {
    "rate": (GAUGE, None, "{} per second"),
    "rate-per-hour": (GAUGE, "1/h", "{} per hour"),
    "total": (COUNTER, None, "{} in all"),
    "avg": (GAUGE, None, "average of {}"),
    "max": (GAUGE, None, "maximum of {}"),
    "min": (GAUGE, None, "minimum of {}"),
    "ns-total": (COUNTER, "ns", "time in all: {}"),
}
#: Rows: "group | tags | stem, then the ends in brackets | unit | thing". A row without ends is a gauge by that name.
_NODE = """
request[rate total] | requests | requests sent
response[rate total] | responses | responses received
request-size[avg max] | bytes | the size of requests
incoming-byte[rate total] | bytes | bytes received
outgoing-byte[rate total] | bytes | bytes sent
"""
_NETWORK = f"""
{_NODE}
connection-count | connections | connections that stand
connection-creation[rate total] | connections | connections made
connection-close[rate total] | connections | connections that ended
network-io[rate total] | requests | requests and responses
successful-authentication[rate total] | logins | logins
failed-authentication[rate total] | logins | logins that failed
successful-reauthentication[rate total] | logins | logins renewed on a connection
failed-reauthentication[rate total] | logins | renewals of a login that failed
reauthentication-latency[avg max] | ms | the duration of renewals
"""
_LATENCY = "request-latency[avg max] | ms | the time from a request to its answer"
_FETCH = """
fetch[rate total] | requests | fetch requests
fetch-latency[avg max] | ms | the time from a fetch request to its answer
fetch-throttle-time[avg max] | ms | the throttling of fetch requests
records-consumed[rate total] | records | records fetched
bytes-consumed[rate total] | bytes | bytes fetched
fetch-size[avg max] | bytes | the bytes of one partition in one answer
"""
_POLL = """
last-poll-seconds-ago | s | time since the last poll
time-between-poll[avg max] | ms | the time between polls
poll-idle-ratio-avg | ratio | the part of its time that a call waits for records
"""
_TRANSACTIONS = "\n".join(f"txn-{step}-time[ns-total] | ns | {step} of transactions" for step in TRANSACTION_STEPS)
_REBALANCE = """
rebalance[total rate-per-hour] | rebalances | rebalances
heartbeat[rate total] | requests | heartbeats
heartbeat-response-time-max | ms | the longest time from a heartbeat to its answer
last-heartbeat-seconds-ago | s | time since the last answer to a heartbeat
"""
JAVA: dict[tuple[str, tuple[str, ...]], str] = {
    ("producer-metrics", ()): f"""{_NETWORK}
        {_LATENCY}
        record-send[rate total] | records | records sent
        record-error[rate total] | records | records that failed for good
        record-retry[rate total] | records | records sent again
        record-size-avg | bytes | average size of a record, uncompressed
        record-queue-time[avg max] | ms | the time from the first message of a batch until it is sent
        records-per-request-avg | records | average number of records in a request
        batch-size[avg max] | bytes | the size of batches, as sent
        compression-rate-avg | ratio | average of the size of a batch as sent, to its records
        requests-in-flight | requests | requests without an answer yet
        produce-throttle-time[avg max] | ms | the throttling of produce requests
        metadata-age | s | age of the metadata
        buffer-total-bytes | bytes | what messages may take that are not acknowledged
        buffer-available-bytes | bytes | what is left of that
        waiting-threads | workers | calls that wait for room
        flush-time[ns-total] | ns | flush()
        metadata-wait-time[ns-total] | ns | waits for metadata in produce()
        bufferpool-wait-time[ns-total] | ns | waits for room in produce()
        {_TRANSACTIONS}""",
    ("producer-node-metrics", ("node-id",)): f"{_NODE}\n{_LATENCY}",
    ("producer-topic-metrics", ("topic",)): """
        record-send[rate total] | records | records sent
        record-error[rate total] | records | records that failed for good
        record-retry[rate total] | records | records sent again
        byte[rate total] | bytes | bytes of records sent, uncompressed
        compression-rate | ratio | average of the size of a batch as sent, to its records""",
    ("consumer-metrics", ()): f"""{_NETWORK}{_POLL}
        commit-sync-time[ns-total] | ns | commits that a call waited for
        committed-time[ns-total] | ns | look-ups of committed offsets""",
    ("consumer-node-metrics", ("node-id",)): f"{_NODE}\n{_LATENCY}",
    ("consumer-fetch-manager-metrics", ()): f"""{_FETCH}
        records-per-request-avg | records | average number of records of one partition in one answer
        records-lag-max | records | the largest lag of a partition
        records-lead-min | records | the smallest distance of a position from the start of its log""",
    ("consumer-fetch-manager-metrics", ("topic",)): """
        records-consumed[rate total] | records | records fetched
        bytes-consumed[rate total] | bytes | bytes fetched
        fetch-size[avg max] | bytes | the bytes of one partition in one answer
        records-per-request-avg | records | average number of records of one partition in one answer""",
    ("consumer-fetch-manager-metrics", ("topic", "partition")): """
        records-lag | records | offsets between position and end
        records-lead | records | offsets between the start of the log and the position
        preferred-read-replica | id | the broker that is fetched from; -1: the leader""",
    ("consumer-coordinator-metrics", ()): f"""{_REBALANCE}
        assigned-partitions | partitions | partitions that are read
        commit[rate total] | requests | commits
        commit-latency[avg max] | ms | the duration of commits
        rebalance-latency[avg max total] | ms | the duration of rebalances
        failed-rebalance[total rate-per-hour] | rebalances | rebalances that failed
        last-rebalance-seconds-ago | s | time since the last rebalance
        partition-assigned-latency[avg max] | ms | on_assigned of the listener
        partition-revoked-latency[avg max] | ms | on_revoked of the listener
        partition-lost-latency[avg max] | ms | on_lost of the listener
        join[rate total] | requests | joins of the group
        join-time[avg max] | ms | the duration of joins
        sync[rate total] | requests | syncs of the group
        sync-time[avg max] | ms | the duration of syncs""",
    ("consumer-share-metrics", ()): _POLL,
    ("consumer-share-fetch-manager-metrics", ()): f"""{_FETCH}
        records-per-request[avg max] | records | the number of records of one answer
        acknowledgements-send[rate total] | records | acknowledgements sent
        acknowledgements-error[rate total] | records | acknowledgements that failed""",
    ("consumer-share-coordinator-metrics", ()): _REBALANCE,
    ("admin-client-metrics", ()): _NETWORK,
    ("admin-client-node-metrics", ("node-id",)): f"{_NODE}\n{_LATENCY}",
    ("app-info", ()): """
        start-time-ms | ms | when it was made, since 1970
        version | | the version of this package, as digits: 3.1.2 is 30102""",
}
#: What Java's clients have not.
OWN: dict[tuple[str, tuple[str, ...]], str] = {
    ("client-api-metrics", ("api",)): """
        request-latency[histogram] | ms | the time from a request to its answer
        request-size[avg max] | bytes | the size of requests
        response-size[avg max] | bytes | the size of responses
        throttle-time[total] | ms | the throttling that brokers announced""",
    ("client-broker-metrics", ("node-id",)): """
        reachable | | 1 with a connection to the broker, 0 if none can be made, absent if none is needed
        connection-failures[total] | attempts | attempts to connect that failed""",
    ("client-hub-metrics", ()): """
        holds[total] | holds | calls that held the hub or event loop for hold_report_ms
        hold-time[total max] | ms | the duration of these holds, as far as it is known""",
    ("consumer-metrics", ("reason",)): """
        stalled-partitions | partitions | partitions behind their end that have stood still for stall_report_ms
        stalls[total] | stalls | the times that a partition has begun to do so""",
    ("consumer-share-metrics", ("reason",)): """
        stalled-partitions | partitions | partitions, or consumers as a whole, that have stood still for stall_report_ms
        stalls[total] | stalls | the times that one has begun to do so""",
    ("producer-metrics", ("reason",)): """
        stalled-partitions | partitions | partitions with a message that is unacknowledged for stall_report_ms
        stalls[total] | stalls | the times that a partition has begun to do so""",
    ("producer-metrics", ()): """
        record-delivery-time[avg max] | ms | the time from the first message of a batch to its acknowledgement
        record-delivery-time[histogram] | ms | the time from the first message of a batch to its acknowledgement
        record-queue-time[histogram] | ms | the time from the first message of a batch until it is sent
        records-acknowledged-batch[rate total] | batches | batches acknowledged
        queued-records | records | messages that are not acknowledged yet
        queued-bytes | bytes | what they take
        records-undelivered[total] | records | records given up as the producer was stopped
        oldest-record-seconds | s | age of the oldest of them""",
    ("producer-error-metrics", ("error",)): """
        record-error[total] | records | records that failed for good, by the error
        record-retry[total] | records | records sent again, by the error""",
    ("consumer-fetch-manager-metrics", ()): """
        records-lag-seconds-max | s | the largest age of the last record handed out, of partitions behind their end
        records-lag-sum | records | the lag of all partitions
        buffered-records | records | records that are fetched and not read yet
        buffered-bytes | bytes | what they take
        buffered-limit-bytes | bytes | what they may take""",
    ("consumer-fetch-manager-metrics", ("topic", "partition")): """
        records-lag-seconds | s | age of the last record handed out; 0 at the end
        still-seconds | s | how long the position has stood still although it is behind the end, to five seconds
        failing-seconds | s | how long fetching it has failed, which hides new lag; 0 if it works
        position | offset | the offset of the next record
        end-offset | offset | where the partition ended in the last answer""",
    ("parallel-metrics", ()): """
        tasks-in-progress | records | records in handle(), or that wait for their ack() behind it
        tasks-waiting | records | records that wait for a worker, for others of their key, or in a pause
        tasks-done[total] | records | records acknowledged
        tasks-failed[total] | records | calls of handle() that have failed
        tasks-retried[total] | records | attempts after a failure
        dead-letters[total] | records | records written as dead letters
        handle-time[avg max] | ms | the duration of handle()
        handle-time[histogram] | ms | the duration of handle()
        oldest-task-seconds | s | how long the longest of the present calls of handle() takes already""",
}
#: {name, begin of names, or name with its tags beyond client-id: why Java's metrics of that name are not here}.
ABSENT: dict[str, str] = {
    "select-rate": "no selector: workers wait in their own connections",
    "select-total": "no selector: workers wait in their own connections",
    "io-ratio": "no selector: workers wait in their own connections",
    "io-time-ns-avg": "no selector: workers wait in their own connections",
    "io-time-ns-total": "no selector: workers wait in their own connections",
    "io-wait-ratio": "no selector: workers wait in their own connections",
    "io-wait-time-ns-avg": "no selector: workers wait in their own connections",
    "io-wait-time-ns-total": "no selector: workers wait in their own connections",
    "successful-authentication-no-reauth-total": "counted with all other logins",
    "batch-split-rate": "a batch that is split counts as records sent again",
    "batch-split-total": "a batch that is split counts as records sent again",
    "buffer-exhausted-rate": "counted as ProducerQueueFullError by the caller, who gets it",
    "buffer-exhausted-total": "counted as ProducerQueueFullError by the caller, who gets it",
    "bufferpool-wait-ratio": "bufferpool-wait-time-ns-total says it",
    "txn-prepare-time": "a step of two-phase commits (KIP-939), which brokers do not have yet",
    "record-size-max": "messages are not looked at one by one; batch-size-max says it of batches",
    "records-lag-max": "by partition records-lag has the value of the moment; all partitions have a maximum",
    "records-lead-min": "by partition records-lead has the value of the moment; all partitions have a minimum",
    "records-lag-avg": "a value by partition and moment: the monitoring system has its average",
    "records-lead-avg": "a value by partition and moment: the monitoring system has its average",
    "records-lag-max{partition,topic}": "a value by partition and moment: the monitoring system has its maximum",
    "records-lead-min{partition,topic}": "a value by partition and moment: the monitoring system has its minimum",
    "application-event": "a queue between threads of Java's client",
    "background-event": "a queue between threads of Java's client",
    "unsent-requests": "a queue between threads of Java's client",
    "time-between-network-thread-poll": "a thread of Java's client",
    "commit-id": "no number: `pykafka.__version__` says it",
    "count": "len() of the result",
}


@cache
def catalog() -> tuple[Entry, ...]:
    """Return all metrics that can exist."""
    return tuple(
        entry
        for rows, java in ((JAVA, True), (OWN, False))
        for (group, tags), text in rows.items()
        for line in text.splitlines()
        if line.strip()
        for entry in _entries(group, tags, line, java)
    )


@cache
def entries() -> dict[tuple[str, str, tuple[str, ...]], Entry]:
    """Return the metrics by group, name and tags."""
    return {(entry.group, entry.name, entry.tags): entry for entry in catalog()}


def _entries(group: str, tags: tuple[str, ...], line: str, java: bool) -> Iterator[Entry]:
    name, unit, thing = (part.strip() for part in line.split("|"))
    all_tags = ("client-id", *tags)
    stem, _, ends = name.partition("[")
    if not ends:
        yield Entry(group, name, all_tags, GAUGE, unit, thing, java)
        return
    for end in ends.rstrip("]").split():
        if end == "histogram":
            yield Entry(group, stem, all_tags, HISTOGRAM, unit, thing, java)
            continue
        kind, own_unit, text = ENDS[end]
        rate_unit = f"{unit}/s" if end == "rate" else unit
        yield Entry(group, f"{stem}-{end}", all_tags, kind, own_unit or rate_unit, text.format(thing), java)
