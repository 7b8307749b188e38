"""Questions of programs that watch a cluster: brokers, leaders, replicas, groups, members, lag."""

import sys

import pykafka
from pykafka import Cluster, KafkaClient, handlers
from pykafka.cli import kafka_tools
from pykafka.protocol import CreateTopicRequest, PartitionOffsetCommitRequest, PartitionOffsetFetchRequest
from pykafka.utils.compat import get_bytes, get_string, iteritems, itervalues

hosts, zookeeper, name, group = sys.argv[1:5]
group = group.encode()
client = pykafka.KafkaClient(hosts=hosts, broker_version="1.0.0")
client.update_cluster()
client.cluster.update()
print(type(client.brokers).__name__, client.brokers is client.cluster.brokers, client.cluster.topics is client.topics)
for broker_id, broker in iteritems(client.brokers):
    print(broker_id, broker.id, broker.host.decode("ascii"), type(broker.port), broker.connected)
    print(repr(broker).split(" at 0x")[0], "{}:{}".format(broker.host.decode(), broker.port) == hosts)
topic = client.topics[name]
for number, partition in topic.partitions.items():
    print(number, partition.id, partition.leader.id, [r.id for r in partition.replicas], [i.id for i in partition.isr])
    print(repr(partition).split(" at 0x")[0], partition.leader is client.brokers[1])
print(repr(topic).split(" at 0x")[0], "(name=" in repr(topic))
broker = list(client.cluster._brokers.values())[0]
made = (name + "-made").encode()
print(type(broker.create_topics([CreateTopicRequest(made, 2, 1, [], [(b"retention.ms", b"100000")])], 5000)).__name__)
client.update_cluster()
print(made in client.topics, len(client.topics[made].partitions))
print(type(broker.delete_topics([made], 5000)).__name__)
handler = handlers.ThreadingHandler()
cluster = Cluster(hosts=hosts, handler=handler, broker_version="0.11.0")
print(cluster.handler is handler, len(cluster.brokers), cluster.topics[name].name == name.encode())
coordinator = cluster.get_group_coordinator(group)
print(coordinator.id, coordinator.host == broker.host, coordinator.port == broker.port)
coordinator.commit_consumer_group_offsets(
    group, -1, b"", [PartitionOffsetCommitRequest(name.encode(), number, 5 + number, 1550000000000, b"note")
                     for number in topic.partitions])
fetched = coordinator.fetch_consumer_group_offsets(
    group, [PartitionOffsetFetchRequest(name.encode(), number) for number in topic.partitions])
print([key.decode() for key in fetched.topics], sorted(fetched.topics[name.encode()].items()))
print({p: d._asdict()["offset"] for p, d in fetched.topics[name.encode()].items()})
print(group in broker.list_groups().groups, group in cluster.get_managed_group_descriptions())
print(sorted(iteritems(kafka_tools.fetch_consumer_lag(client, topic, group))))
print(kafka_tools.fetch_offsets(client, topic, "earliest"), kafka_tools.fetch_offsets(client, topic, "LATEST"))
consumer = topic.get_balanced_consumer(group + b"-members", managed=True, consumer_timeout_ms=500)
described = broker.describe_groups([group + b"-members"]).groups[group + b"-members"]
print(described.group_id.decode(), described.state == b"Stable", described.protocol == b"range", described.error_code)
print({b"consumer": "a consumer"}[described.protocol_type], described.group_id + b"!" == group + b"-members!")
for member_id, member in iteritems(described.members):
    print(member_id == member.member_id, member_id.decode()[:8], member.client_id.decode("utf-8"), member.client_host.decode())
    print([t.decode() for t in member.member_metadata.topic_names], member[3].topic_names, member.member_metadata.version)
    print([(t, sorted(p)) for t, p in member.member_assignment.partition_assignment], member[4].version)
print([described[5] is described.members, len(described)])
consumer.stop()
print(get_string(b"a"), get_bytes("b"), list(itervalues({1: 2})), repr(client).split(" at 0x")[0])
