"""`DataPath`: how the brokers of a release differ in what they write and read, beside the versions that they speak."""

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
    :param null_aborted: whether the aborted transactions of a partition that is not there are null instead of none
    """

    message_format: int = 2
    takes_any_acks: bool = False
    unpacks: bool = False
    remembered: int = 5
    refuses_unknown: bool = False
    says_stable: bool = True
    null_aborted: bool = False


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
    )
