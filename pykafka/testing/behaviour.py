"""`DataPath`, `GroupPath` and so on: how the brokers of releases differ, beside the versions that they speak.

Each is made for the numbers of a release, such as (0, 10, 2, 2); without them for the newest.
"""

from __future__ import annotations

from typing import Final

from pykafka.exceptions import OutOfOrderSequenceNumber, UnknownProducerId

_NEWEST: Final[tuple[int, ...]] = (4, 4)


class DataPath:
    """How brokers write and read."""

    def __init__(self, numbers: tuple[int, ...] = _NEWEST) -> None:
        #: The message format of logs.
        self.message_format = 0 if numbers < (0, 10) else 1 if numbers < (0, 11) else 2
        #: Whether acks may be the number of replicas to wait for.
        self.takes_any_acks = numbers < (0, 9)
        #: Whether old readers get compressed messages unpacked.
        self.unpacks = numbers < (0, 11)
        #: How many batches of a producer a log remembers.
        self.remembered = 1 if numbers < (1,) else 5
        #: What a producer gets that a log does not know and that does not begin at 0; None: it may write.
        self.unknown_producer = (
            None if numbers >= (2, 5) else UnknownProducerId if numbers >= (1,) else OutOfOrderSequenceNumber
        )
        #: Whether a log forgets producers whose records are deleted (KAFKA-7190).
        self.forgets_deleted = numbers < (2, 4)
        #: Whether readers of uncommitted records are told the last stable offset, too.
        self.says_stable = numbers >= (2,)
        #: Whether the aborted transactions of a partition that is not there are null instead of none.
        self.null_aborted = numbers < (3,)
        #: Whether a producer's epoch is looked at before the log is.
        self.verifies = numbers >= (4,)


class GroupPath:
    """How brokers coordinate groups."""

    def __init__(self, numbers: tuple[int, ...] = _NEWEST) -> None:
        #: Whether heartbeats and commits get REBALANCE_IN_PROGRESS until the leader has assigned partitions, whatever
        #: generation they name.
        self.waits_for_sync = numbers < (2,)
        #: Whether such a member has to be one.
        self.looks_at_members = numbers >= (0, 10)
        #: Whether an instance id that is no member's is ignored if the member id is right.
        self.takes_strange_instances = numbers < (3,)
        #: The name of that state.
        self.completing = "AwaitingSync" if numbers < (1, 1) else "CompletingRebalance"
        #: Whether groups without members are gone.
        self.forgets_empty = numbers < (0, 10)
        #: The generation in an answer that refuses to let somebody join.
        self.refused_generation = 0 if numbers < (2,) else -1
        #: Whether members are described with the assignments of before during a rebalance.
        self.shows_assignments = numbers >= (4,)
        #: Whether an offset is refused whose partition is not there.
        self.checks_partitions = numbers >= (2,)
        #: Whether the member and the generation of offsets in a transaction are looked at each by itself, if named.
        self.checks_apart = numbers < (3, 5)
        #: Whether a question for the offsets of no topics gets those of all.
        self.lists_all = (0, 9) <= numbers < (0, 10, 2)
        #: Whether offsets of partitions that are not there are an error.
        self.refuses_strange_fetch = numbers < (0, 9)
        #: Whether a group goes with its last offset, if that is deleted and it has no members.
        self.ends_with_offsets = numbers < (4,)
        #: Whether filters of ListGroups take states in small letters, too.
        self.lowers_states = numbers >= (3, 7)
        #: Whether a group whose last member has gone has an assignment of its last epoch.
        self.assigns_empty = numbers >= (4, 4)
        #: Whether the consumer protocol (KIP-848) is on.
        self.next_generation = numbers >= (4,)
        #: Whether a ShareFetch of a topic that is not there fails as a whole.
        self.fails_strange_shares = numbers < (4, 4)


class TransactionPath:
    """How brokers coordinate transactions."""

    def __init__(self, numbers: tuple[int, ...] = _NEWEST) -> None:
        #: Whether leaders and groups' coordinators ask whether they were added to a transaction.
        self.verifies = numbers >= (3, 6)
        #: Whether a producer whose open transaction the coordinator aborted gets the next epoch for its own one; 4.0.0
        #: refuses that, 4.3.1 does not.
        self.knows_fenced = numbers >= (4, 1)


class AdminPath:
    """How brokers administer topics."""

    def __init__(self, numbers: tuple[int, ...] = _NEWEST) -> None:
        #: Whether a value that cannot be is INVALID_CONFIG, and not an unknown error.
        self.explains_configs = numbers >= (2,)
        #: Whether a value that cannot be is INVALID_CONFIG when it is altered, and not INVALID_REQUEST.
        self.explains_changes = numbers >= (3,)
        #: Whether filters of DeleteAcls are refused that name no known kind.
        self.checks_filters = numbers >= (4,)
        #: Whether a principal without a colon is INVALID_REQUEST, and not an unknown error.
        self.explains_principals = not (2,) <= numbers < (4,)
        #: Whether version 0 of DescribeConfigs distinguishes defaults from what was set.
        self.tells_defaults = numbers < (2,)
        #: Whether a topic that is not there is described as one with defaults.
        self.describes_missing = numbers < (2,)
        #: Whether features are updated all or none.
        self.updates_together = numbers >= (4,)
        #: Whether metadata says that no topic can have a name, even if none shall be created.
        self.looks_at_names = numbers >= (2,)
        #: Whether the answer has the id of a topic that is deleted by its name.
        self.names_deleted = numbers >= (4,)
        #: Whether a topic that is not there is unknown to those, too, who may not delete it.
        self.finds_first = numbers >= (4,)
        #: Whether the right to create one topic is enough for that (KIP-277).
        self.creates_single = numbers >= (2,)
