"""The ten programs of a team's first week with Kafka, each also with three other clients: see docs/comparison.md."""
