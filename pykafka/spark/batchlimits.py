"""How large the record batches of a topic may be, as this process has learnt from those that were refused.

A topic's `max.message.bytes` may be less than what a request may have. Spark uses a Python worker again for task after
task, so what one of them was refused the next need not find out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException, error_for
from pykafka.protocol import wire
from pykafka.spark.loss import log

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.spark.options import ClientOptions

_SETTING = "max.message.bytes"
_TOPIC_RESOURCE = 2
#: How long the brokers have to tell a setting (ms): halving does without it.
_PATIENCE_MS = 5000
#: The share of the limit that compressed batches are cut to, as no two of them are compressed alike.
_COMPRESSED_SHARE = 0.9

# Bytes of a batch before compression, by cluster and topic; entries are replaced whole, so they need no lock.
_learnt: dict[tuple[ClientOptions, str], int] = {}


def limit_of(options: ClientOptions, topic: str) -> int | None:
    """Return what a batch of a topic may take before compression (bytes); None where none was refused."""
    return _learnt.get((options, topic))


def learn(cluster: BaseCluster, options: ClientOptions, topic: str, size: int, sent: int) -> int:
    """Take note that a batch of several records was refused as too large; return what the topic's may take from now on.

    :param size: of the batch before compression (bytes)
    :param sent: of the batch as it was sent (bytes)
    """
    known = limit_of(options, topic)
    if known is not None and known < size:
        return known  # the batch was begun before that was known
    allowed = _setting(cluster, options, topic)
    if allowed is None or allowed >= sent:
        # The brokers do not tell, or measure the batch in another form than the one that it was sent in.
        limit = size // 2
    else:
        limit = allowed if sent == size else int(size * _COMPRESSED_SHARE * allowed / sent)
    # Whatever the broker tells: the batch as it was is refused.
    limit = min(limit, size - 1)
    log.info("batches of %s are cut at %d bytes from now on: one of %d bytes was refused", topic, limit, sent)
    _learnt[options, topic] = limit
    return limit


def _setting(cluster: BaseCluster, options: ClientOptions, topic: str) -> int | None:
    resource = wire.DescribeConfigsRequest.Resource(resource_type=_TOPIC_RESOURCE, resource_name=topic)
    resource.configuration_keys = [_SETTING]
    request = wire.DescribeConfigsRequest(resources=[resource])
    try:
        response = cluster.call(request, timeout_ms=min(_PATIENCE_MS, options.timeout_ms))
        for result in response.results:
            if result.error_code:
                raise error_for(result.error_code, result.error_message, topic=topic, api="DescribeConfigs")
            for config in result.configs:
                if config.name == _SETTING and config.value is not None:
                    return int(config.value)
    except KafkaException as error:
        # Brokers before 0.11 do not tell settings, others not everybody.
        log.info("%s of %s is not told: %s", _SETTING, topic, error)
    return None
