"""Transactions of a producer: their states, their coordinator, and what they change about sending."""
