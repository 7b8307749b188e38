"""Membership of groups by KIP-848: the coordinator assigns, and heartbeats carry the assignment."""
