"""Example programs for PyKafka; tests run each of them."""
