"""Programs of PyKafka 2 that read internals, beside 2.8.0 itself on the same brokers; and what 2.8.0 has, by its own word."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from pykafka import KafkaClient
from pykafka.admin import NewTopic
from tests.brokers import KafkaCluster
from tests.support.oldpykafka import old_python

ROOT = Path(__file__).parents[2]

#: Prints what programs look at, in a form that names as str or bytes do not change.
PROGRAM = """
import json, logging, sys
from pykafka import KafkaClient
from pykafka.protocol.offset import OffsetPartitionResponse
from pykafka.producer import CompressionType
from pykafka.utils.compat import Empty
from pykafka.simpleconsumer import EPOCH

logging.disable(logging.CRITICAL)
hosts, name = sys.argv[1:]
text = lambda value: value.decode() if isinstance(value, bytes) else value
client = KafkaClient(hosts=hosts)
shown = str(client.topics)
topic = client.topics[name]
out = {"shown": name in shown, "known": text(list(client.topics)[0]) != "", "seeds": client.cluster._seed_hosts}
out["ends"] = [type(one) is OffsetPartitionResponse for one in topic.latest_available_offsets().values()]
out["brokers"] = sorted(client.cluster._brokers) == sorted(client.brokers)
with topic.get_producer(linger_ms=0, max_retries=7, compression=CompressionType.GZIP) as producer:
    names = "_ack_timeout_ms _linger_ms _max_retries _required_acks _synchronous _running _worker_exception _compression"
    out["producer"] = [getattr(producer, one) for one in names.split()]
    for number in range(20):
        producer.produce(b"%d" % number)
consumer = topic.get_simple_consumer(consumer_group=b"g-" + name.encode(), consumer_timeout_ms=3000, fetch_min_bytes=2)
out["running"] = [consumer._running]
names = "_auto_commit_enable _consumer_timeout_ms _fetch_min_bytes _generation_id _worker_exception _auto_offset_reset"
out["consumer"] = [getattr(consumer, one) for one in names.split()]
out["group"] = text(consumer._consumer_group)
out["member"] = text(consumer._consumer_id)
values = sorted(int(consumer.consume().value) for _ in range(20))
out["offsets"] = sorted(owned.last_offset_consumed for owned in consumer._partitions.values())
consumer.reset_offsets([(partition, owned.last_offset_consumed - 2) for partition, owned in consumer._partitions.items()])
out["again"] = [int(consumer.consume().value) >= 0 for _ in range(2)]
out["ids"] = sorted(consumer._partitions_by_id)
out["leaders"] = [sorted(one.partition.id for one in owned) for owned in consumer._partitions_by_leader.values()]
consumer.stop()
out["running"].append(consumer._running)
managed = topic.get_balanced_consumer(b"m-" + name.encode(), managed=True, consumer_timeout_ms=500)
names = "_heartbeat_interval_ms _running _rebalance_max_retries _rebalance_backoff_ms _queued_max_messages _use_rdkafka"
out["managed"] = [getattr(managed, one) for one in names.split()] + [managed._group_coordinator.id]
managed.stop()
print(json.dumps([out, values]))
"""


def run(python: Path | str, *arguments: str) -> Any:
    ran = subprocess.run(
        [str(python), "-W", "ignore", *arguments], capture_output=True, text=True, timeout=120, check=False, cwd="/"
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_program_that_reads_internals_sees_what_2_8_0_shows() -> None:
    names = ["internals-old", "internals-new"]
    with KafkaCluster("2.8.2") as kafka:  # later brokers refuse requests of 2.8.0
        with KafkaClient(kafka.hosts) as client:
            client.admin.create_topics([NewTopic(name, partitions=2) for name in names])
        old = run(old_python(), "-c", PROGRAM, kafka.hosts, names[0])
        new = run(sys.executable, "-c", PROGRAM, kafka.hosts, names[1])
    assert old[1] == new[1] == list(range(20))
    for key, value in old[0].items():
        if key == "seeds":
            assert new[0][key] == value == kafka.hosts
        elif key not in ("group", "offsets"):  # names of topics differ, and so does the partition of a message
            assert new[0][key] == value, key
    assert new[0]["group"] == f"g-{names[1]}"
    assert sum(new[0]["offsets"]) == sum(old[0]["offsets"]) == 18


def test_the_names_of_2_8_0_are_listed() -> None:
    """tests/pykafka2_names.json has what 2.8.0 has."""
    listed = json.loads((ROOT / "tests" / "pykafka2_names.json").read_text())["2.8.0"]
    found = run(old_python(), str(ROOT / "tests" / "support" / "oldinventory.py"))
    assert found == listed
