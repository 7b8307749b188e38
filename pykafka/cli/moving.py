"""Plans to move partitions to other brokers, as data and as the JSON of Kafka's own tools. Prints nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pykafka.common import TopicPartition

Plan = dict[TopicPartition, list[int]]


def parse_plan(text: str) -> Plan:
    """Return the plan of {"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}, or of such a list alone.

    :raises ValueError: the text has another form, or names a partition twice
    """
    data: Any = json.loads(text)
    entries = data.get("partitions") if isinstance(data, dict) else data
    found: Plan = {}
    for number, entry in enumerate(entries if isinstance(entries, list) else [None], 1):
        row: dict[str, Any] = entry if isinstance(entry, dict) else {}
        topic: Any = row.get("topic")
        partition: Any = row.get("partition")
        replicas: Any = row.get("replicas")
        right = isinstance(topic, str) and type(partition) is int and isinstance(replicas, list) and replicas
        if not right or not all(type(one) is int for one in replicas):
            raise ValueError(f'entry {number} is not {{"topic": "t", "partition": 0, "replicas": [1, 2]}}')
        key = TopicPartition(topic, partition)
        if key in found:
            raise ValueError(f"entry {number}: partition {partition} of {topic} is named twice")
        found[key] = replicas
    if not found:
        raise ValueError("it names no partition")
    return found


def plan_text(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Return a plan as JSON that `parse_plan` and Kafka's own tools read."""
    rows = [{"topic": item.topic, "partition": item.partition, "replicas": list(one)} for item, one in plan.items()]
    return json.dumps({"version": 1, "partitions": rows}, indent=2)


def spread(
    present: Mapping[TopicPartition, Sequence[int]],
    brokers: Sequence[int],
    replicas: int | None = None,
    racks: Mapping[int, str | None] | None = None,
) -> Plan:
    """Return a plan that shares partitions out among brokers evenly, and moves no more replicas than it must.

    :param present: the replicas of each partition, the preferred leader first
    :param brokers: those that are to have them
    :param replicas: how many of each partition; None keeps the number
    :param racks: of brokers; the replicas of a partition go to different ones where there are enough
    :raises ValueError: there are fewer brokers than replicas
    """
    racks = racks or {}
    plan: Plan = {}
    for item, now in present.items():
        count = replicas or len(now)
        if count > len(brokers):
            raise ValueError(f"{count} replicas of {item} need as many brokers; there are {len(brokers)}")
        plan[item] = [one for one in now if one in brokers][:count]
    load = {broker: sum(broker in its for its in plan.values()) for broker in brokers}
    for item, its in plan.items():
        while len(its) < (replicas or len(present[item])):
            free = [one for one in brokers if one not in its]
            best = min(free, key=lambda one: (_is_doubled(one, its, racks), load[one], one))
            its.append(best)
            load[best] += 1
    while _moved_one(plan, load, racks):
        pass
    leads = dict.fromkeys(brokers, 0)
    for its in plan.values():
        # The one that leads the fewest, and of those the one that stands first.
        first = min(its, key=lambda one: leads[one])
        leads[first] += 1
        its.insert(0, its.pop(its.index(first)))
    while _led_by_another(plan, leads):
        pass
    return plan


def _led_by_another(plan: Plan, leads: dict[int, int]) -> bool:
    """Give one partition to a broker that leads fewer; return False if all have their share."""
    for its in plan.values():
        best = min(its, key=lambda one: leads[one])
        if leads[its[0]] - leads[best] > 1:
            leads[its[0]] -= 1
            leads[best] += 1
            its.insert(0, its.pop(its.index(best)))
            return True
    return False


def _is_doubled(broker: int, its: Sequence[int], racks: Mapping[int, str | None]) -> bool:
    """Return whether one of these replicas is in the broker's rack."""
    rack = racks.get(broker)
    return rack is not None and any(racks.get(one) == rack for one in its)


def _moved_one(plan: Plan, load: dict[int, int], racks: Mapping[int, str | None]) -> bool:
    """Move one replica from a broker with many to one with few; return False if all have their share."""
    for full in sorted(load, key=lambda one: -load[one]):
        for empty in sorted(load, key=lambda one: load[one]):
            if load[full] - load[empty] <= 1:
                break
            for its in plan.values():
                others = [one for one in its if one != full]
                if (
                    full in its
                    and empty not in its
                    and _is_doubled(empty, others, racks) <= _is_doubled(full, others, racks)
                ):
                    its[its.index(full)] = empty
                    load[full] -= 1
                    load[empty] += 1
                    return True
    return False
