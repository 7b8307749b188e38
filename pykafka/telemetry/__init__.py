"""Metrics of this client for brokers that subscribe to them (KIP-714). README.md has the map of this room."""
