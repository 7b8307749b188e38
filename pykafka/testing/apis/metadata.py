"""Metadata: brokers, topics and leaders."""

from __future__ import annotations

from pykafka.exceptions import UnknownTopicOrPartition
from pykafka.protocol import wire
from pykafka.testing.call import Call, api
from pykafka.testing.topics import Topic

_Listed = wire.MetadataResponse.Topic


@api(wire.MetadataRequest)
def metadata(call: Call, request: wire.MetadataRequest) -> wire.MetadataResponse:
    """Say which brokers there are, and who leads which partition."""
    state = call.state
    wanted = request.topics
    topics: list[_Listed]
    if wanted is None or (not wanted and call.version == 0):
        topics = [_described(topic) for topic in state.topics.values()]
    else:
        topics = []
        for one in wanted:
            found = state.topics.get(one.name) if one.name is not None else state.topic_ids.get(one.topic_id)
            if found is None:
                topics.append(_Listed(error_code=UnknownTopicOrPartition.ERROR_CODE, name=one.name))
            else:
                topics.append(_described(found))
    brokers = [
        wire.MetadataResponse.Broker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in state.nodes.values()
        if node.is_up
    ]
    return wire.MetadataResponse(
        brokers=brokers, cluster_id=state.cluster_id, controller_id=state.controller_id, topics=topics
    )


def _described(topic: Topic) -> _Listed:
    partitions = [
        _Listed.Partition(
            partition_index=partition.index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
        )
        for partition in topic.partitions
    ]
    return _Listed(name=topic.name, topic_id=topic.id, is_internal=topic.is_internal, partitions=partitions)
