"""Writes in transactions that ACLs do not permit: the query fails, and its error names the right that is missing."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykafka.admin import AclOperation, PatternType, ResourceType
from tests.brokers import KafkaCluster
from tests.integration.producer.test_transactions_denied import USER, denied
from tests.spark.test_exactly_once import Query, numbers, seen
from tests.support.logins import options_of_spark
from tests.support.spark.topics import Topics

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.needs("listed transactions"),
    pytest.mark.matrix,
    pytest.mark.timeout(400),
]
#: How long the ACL may take to reach the broker (s).
KNOWN_S = 2


@pytest.mark.parametrize(
    ("resource", "operation", "advice"),
    [
        (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, "Allow WRITE: kafka-acls .* --transactional-id"),
        (ResourceType.GROUP, AclOperation.READ, "Allow READ: kafka-acls .* --group"),
        (ResourceType.TOPIC, AclOperation.WRITE, "ACL"),
        (ResourceType.TOPIC, AclOperation.READ, "ACL"),
    ],
    ids=["transactional id", "group", "written topic", "topic of the record"],
)
def test_a_missing_right_is_named(
    spark: SparkSession,
    secure_kafka: KafkaCluster,
    tmp_path: Path,
    resource: ResourceType,
    operation: AclOperation,
    advice: str,
) -> None:
    topics = Topics(secure_kafka.hosts)
    source, target = topics.create(partitions=2), topics.create(partitions=2, prefix=f"denied-{uuid.uuid4().hex[:6]}")
    topics.numbered(source, {0: 10, 1: 10})
    reader = spark.readStream.format("pykafka").options(
        **{"kafka.bootstrap.servers": secure_kafka.hosts, "subscribe": source, "startingOffsets": "earliest"}
    )
    assert secure_kafka.sasl is not None
    login = options_of_spark(secure_kafka, USER, dict(secure_kafka.sasl.users)[USER])
    query = Query(reader.load(), topics, target, tmp_path / "checkpoint", **login)
    pattern = PatternType.LITERAL if resource is ResourceType.TOPIC else PatternType.PREFIXED
    with denied(secure_kafka, resource, target, operation, pattern):
        time.sleep(KNOWN_S)
        with pytest.raises(PySparkException, match=advice) as caught:
            query.run()
        assert target in str(caught.value)
        assert seen(topics, target) == []
    time.sleep(KNOWN_S)
    query.run()
    assert seen(topics, target) == numbers(10)
