"""Writes in transactions that ACLs do not permit: the query fails, and its error names the right that is missing."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykafka import KafkaClient
from pykafka.admin import AclBinding, AclFilter, AclOperation, PatternType, Permission, ResourceType
from tests.brokers import KafkaCluster
from tests.spark.test_exactly_once import Query, numbers, seen
from tests.support.spark.topics import Topics

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.needs("listed transactions"),
    pytest.mark.matrix,
    pytest.mark.timeout(400),
]
#: The user, whose ACLs no other test has.
USER = "bob"
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
    password = dict(secure_kafka.sasl.users)[USER]
    login = {
        "kafka.bootstrap.servers": secure_kafka.hosts_of("SASL_PLAINTEXT"),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{USER}" password="{password}";',
    }
    query = Query(reader.load(), topics, target, tmp_path / "checkpoint", **login)
    with KafkaClient(secure_kafka.hosts) as client:
        pattern = PatternType.LITERAL if resource is ResourceType.TOPIC else PatternType.PREFIXED
        rule = AclBinding(resource, target, f"User:{USER}", operation, Permission.DENY, pattern=pattern)
        client.admin.create_acls(rule)
        try:
            time.sleep(KNOWN_S)
            with pytest.raises(PySparkException, match=advice) as caught:
                query.run()
            assert target in str(caught.value)
            assert seen(topics, target) == []
        finally:
            client.admin.delete_acls(AclFilter(name=target, pattern=pattern))
        time.sleep(KNOWN_S)
    query.run()
    assert seen(topics, target) == numbers(10)
