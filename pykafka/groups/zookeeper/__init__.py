"""Membership of groups that ZooKeeper keeps, as consumers of Kafka before 0.9 do."""
