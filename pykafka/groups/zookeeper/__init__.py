"""Membership of groups that ZooKeeper keeps, as consumers of Kafka before 0.9 do."""

from pykafka.metadata import zookeeper  # noqa: F401 - before the modules here import kazoo: without it, this names the extra
