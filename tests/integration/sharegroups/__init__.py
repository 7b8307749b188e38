"""Share groups on real brokers."""
