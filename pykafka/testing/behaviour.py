"""`DataPath`, `GroupPath` and so on: how the brokers of releases differ, beside the versions that they speak."""

from __future__ import annotations

from typing import NamedTuple


class DataPath(NamedTuple):
    """How brokers write and read; as it stands, Kafka 4.4.

    :param message_format: of logs: 2; 0 as Kafka 0.8 and 0.9, 1 as 0.10
    :param takes_any_acks: whether acks may be the number of replicas to wait for, as in 0.8
    :param unpacks: whether old readers get compressed messages unpacked, as from 0.10
    :param remembered: how many batches of a producer a log remembers; 0.11: 1
    :param refuses_unknown: whether producers that a log does not know have to begin at 0, as until 2.4
    :param says_stable: whether readers of uncommitted records are told the last stable offset, too
    :param verifies: whether a producer's epoch is looked at before the log is, as from 4.0
    :param null_aborted: whether the aborted transactions of a partition that is not there are null instead of none
    """

    message_format: int = 2
    takes_any_acks: bool = False
    unpacks: bool = False
    remembered: int = 5
    refuses_unknown: bool = False
    says_stable: bool = True
    null_aborted: bool = False
    verifies: bool = True


class GroupPath(NamedTuple):
    """How brokers coordinate groups; as it stands, Kafka 4.4.

    :param waits_for_sync: whether heartbeats and commits get REBALANCE_IN_PROGRESS until the leader has assigned partitions,
        whatever generation they name, as in 0.9 to 1.x
    :param looks_at_members: whether such a member has to be one, as from 0.10
    :param completing: the name of that state
    :param forgets_empty: whether groups without members are gone, as in 0.9
    :param refused_generation: in an answer that refuses to let somebody join
    :param shows_assignments: whether members are described with the assignments of before during a rebalance
    :param checks_partitions: whether an offset is refused whose partition is not there
    :param refuses_strange_fetch: whether offsets of partitions that are not there are an error, as in 0.8
    :param next_generation: whether the consumer protocol (KIP-848) is on
    :param fails_strange_shares: whether a ShareFetch of a topic that is not there fails as a whole, as in 4.3
    """

    waits_for_sync: bool = False
    looks_at_members: bool = True
    completing: str = "CompletingRebalance"
    forgets_empty: bool = False
    refused_generation: int = -1
    shows_assignments: bool = True
    checks_partitions: bool = True
    refuses_strange_fetch: bool = False
    next_generation: bool = True
    fails_strange_shares: bool = False


def group_path(numbers: tuple[int, ...]) -> GroupPath:
    """Return how brokers of a release coordinate groups.

    :param numbers: of the release: (0, 10, 2, 2)
    """
    return GroupPath(
        waits_for_sync=numbers < (2,),
        looks_at_members=numbers >= (0, 10),
        completing="AwaitingSync" if numbers < (1, 1) else "CompletingRebalance",
        forgets_empty=numbers < (0, 10),
        refused_generation=0 if numbers < (2,) else -1,
        shows_assignments=numbers >= (4,),
        checks_partitions=numbers >= (2,),
        refuses_strange_fetch=numbers < (0, 9),
        next_generation=numbers >= (4,),
        fails_strange_shares=numbers < (4, 4),
    )


class TransactionPath(NamedTuple):
    """How brokers coordinate transactions; as it stands, Kafka 4.4.

    :param verifies: whether leaders and groups' coordinators ask whether they were added to a transaction, as from 3.6
    :param knows_fenced: whether a producer whose open transaction the coordinator aborted gets the next epoch for its own
        one; 4.0.0 refuses that, 4.3.1 does not
    """

    verifies: bool = True
    knows_fenced: bool = True


def transaction_path(numbers: tuple[int, ...]) -> TransactionPath:
    """Return how brokers of a release coordinate transactions.

    :param numbers: of the release: (0, 10, 2, 2)
    """
    return TransactionPath(verifies=numbers >= (3, 6), knows_fenced=numbers >= (4, 1))


class AdminPath(NamedTuple):
    """How brokers administer topics; as it stands, Kafka 4.4.

    :param explains_configs: whether a value that cannot be is INVALID_CONFIG, and not an unknown error, as until 1.x
    :param looks_at_names: whether metadata says that no topic can have a name, even if none shall be created
    :param names_deleted: whether the answer has the id of a topic that is deleted by its name
    :param finds_first: whether a topic that is not there is unknown to those, too, who may not delete it, as from 4.0
    :param creates_single: whether the right to create one topic is enough for that, as from 2.0 (KIP-277)
    """

    explains_configs: bool = True
    looks_at_names: bool = True
    names_deleted: bool = True
    finds_first: bool = True
    creates_single: bool = True


def admin_path(numbers: tuple[int, ...]) -> AdminPath:
    """Return how brokers of a release administer topics.

    :param numbers: of the release: (0, 10, 2, 2)
    """
    since_2, since_4 = numbers >= (2,), numbers >= (4,)
    return AdminPath(
        explains_configs=since_2,
        looks_at_names=since_2,
        names_deleted=since_4,
        finds_first=since_4,
        creates_single=since_2,
    )


def data_path(numbers: tuple[int, ...]) -> DataPath:
    """Return how brokers of a release write and read.

    :param numbers: of the release: (0, 10, 2, 2)
    """
    return DataPath(
        message_format=0 if numbers < (0, 10) else 1 if numbers < (0, 11) else 2,
        takes_any_acks=numbers < (0, 9),
        unpacks=numbers < (0, 11),
        remembered=1 if numbers < (1,) else 5,
        refuses_unknown=numbers < (2, 5),
        says_stable=numbers >= (2,),
        null_aborted=numbers < (3,),
        verifies=numbers >= (4,),
    )
