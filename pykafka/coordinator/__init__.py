"""Membership of the groups that Kafka's brokers keep: who takes part, who gets which partitions, and who is alive."""
