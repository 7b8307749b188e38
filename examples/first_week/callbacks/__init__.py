"""Callbacks: send a thousand messages, and count those that were stored."""
