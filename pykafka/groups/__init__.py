"""Consumers that share a topic: what they have in common, and how they agree on shares through ZooKeeper."""
