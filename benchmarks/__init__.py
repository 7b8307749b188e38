"""This client measured beside its peers on real Kafka: `python -m benchmarks run`, then `report`."""
