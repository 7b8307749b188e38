"""A stream whose principal lacks a right on the group of commitProgressTo names it once, and continues: no Spark session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka import KafkaClient
from pykafka.admin import AclBinding, AclOperation, Permission, ResourceType
from pykafka.spark import progress, session
from pykafka.spark.errors import DataLossError
from pykafka.spark.offsets import JsonOffsets
from pykafka.spark.options import read_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.stream41 import SelfLimitingStreamReader
from tests.brokers import KafkaCluster
from tests.support.logins import options_of_spark
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture
def admin(secure_kafka: KafkaCluster) -> Iterator[KafkaClient]:
    """Yield a client of a super user."""
    with KafkaClient(secure_kafka.hosts) as client:
        yield client
        session.close_all()


class Query:
    """The runs of one query that reads a topic as the cluster's user, with what Spark's checkpoint would have.

    :param kafka: the cluster
    :param topic: to read
    :param group: for commitProgressTo
    """

    def __init__(self, kafka: KafkaCluster, topic: str, group: str) -> None:
        self._raw = {
            **options_of_spark(kafka, kafka.user, kafka.password),
            "subscribe": topic,
            "startingOffsets": "earliest",
            "commitProgressTo": group,
        }
        self._end: JsonOffsets | None = None

    def run(self) -> JsonOffsets:
        """Start the query in a process of its own, as far as it can tell, and do a micro-batch; return its end."""
        progress._reported.clear()
        reader = SelfLimitingStreamReader(read_options(self._raw, Mode.STREAM_READ), ("value",))
        try:
            start = reader.initialOffset() if self._end is None else self._end
            if self._end is not None:
                reader.partitions(start, start)
            end = reader.latestOffset()
            reader.partitions(start, end)
            self._end = reader.latestOffset()
        finally:
            reader.stop()
            session.close_all()
        return self._end


def produce(client: KafkaClient, topic: str) -> None:
    with client.topics[topic].get_producer(required_acks=-1, linger_ms=0) as producer:
        producer.produce(b"x")


@pytest.mark.parametrize("lacking", ["READ", "DESCRIBE"])
def test_a_right_that_is_lacking_is_named_once_and_the_query_goes_on(
    secure_kafka: KafkaCluster, admin: KafkaClient, caplog: pytest.LogCaptureFixture, lacking: str
) -> None:
    """A query that could see the group, and not commit to it, failed at each restart with advice that did not help."""
    topic = create_topic(admin).name
    user, permission = f"User:{secure_kafka.user}", Permission.ALLOW
    acls = [AclBinding(ResourceType.GROUP, topic, user, AclOperation.DESCRIBE, permission)]
    if lacking == "DESCRIBE":  # READ would include it
        acls = [
            AclBinding(ResourceType.GROUP, topic, user, AclOperation.READ, permission),
            AclBinding(ResourceType.GROUP, topic, user, AclOperation.DESCRIBE, Permission.DENY),
        ]
    admin.admin.create_acls(acls)
    query = Query(secure_kafka, topic, group=topic)
    for run in range(1, 4):
        produce(admin, topic)
        caplog.clear()
        assert query.run() == {topic: {"0": run}}
        told = [record.message for record in caplog.records if "commitProgressTo" in record.message]
        assert len(told) == 1, told
        assert f"lacks the right {lacking} on the group '{topic}' (commitProgressTo). The query continues" in told[0]
        assert f"--operation READ --group {topic}" in told[0]


def test_a_group_that_takes_commits_and_has_none_is_still_a_loss(
    secure_kafka: KafkaCluster, admin: KafkaClient
) -> None:
    """As where a topic was deleted and recreated: the rule has no hole but for lacking rights."""
    topic = create_topic(admin).name
    produce(admin, topic)
    query = Query(secure_kafka, topic, group=topic)
    query.run()
    admin.admin.delete_groups(topic)
    with pytest.raises(DataLossError, match="has no offset of topic"):
        query.run()
