"""Membership of groups by the classic protocol: JoinGroup, SyncGroup and heartbeats."""
