"""The groups of a fake cluster: one engine for each protocol."""
