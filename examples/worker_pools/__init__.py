"""Programs in worker pools: each produces to, or consumes from, `TOPIC` at the brokers in `KAFKA` (environment variables)."""
