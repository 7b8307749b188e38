"""Benchmarks of this client beside others on a real Kafka: `python -m benchmarks run`, then `report`."""
