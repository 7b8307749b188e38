"""Membership of consumer groups: who reads which partitions.

A `KafkaConsumer` has an `AssignmentFollower` (assignment_follower.py), which calls a `GroupMembership` and is its
`AssignmentHooks` (membership.py). `make_membership`, beside it, makes the membership of a protocol: `classic/`,
`kip848/` or `zookeeper/`; "auto" asks the coordinator first (auto_membership.py, options.py). A join, by the
classic protocol:

1. `AssignmentFollower.poll` calls `PolledMembership.poll` (polled_membership.py), one worker at a time, if `needs_poll`.
2. `ClassicMembership` checks topics (subscription.py), and revokes partitions if necessary (assignment_change.py).
3. `AbstractCoordinator.join_until_stable` (classic/coordinator.py) sends JoinGroup and SyncGroup over a `PendingJoin`
   (classic/pending_join.py). The leader's `MemberAssignors` (classic/membership.py) call an assignor (assignors/).
4. `AssignmentChange.assign_pending` calls `on_assigned` or `on_added`: the consumer reads, and the listener runs.
5. `HeartbeatThread` (heartbeat_thread.py) sends what each member's `HeartbeatSender` returns (heartbeat_sender.py). Its reports
   request the next poll.
"""
