"""`Owners`: a partition belongs to one member of a group in each generation; a former owner stops when it has to know."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pykafka.common import TopicPartition
from pykafka.testing.checks.anomaly import Anomaly, Kind, found
from pykafka.testing.checks.facts import Facts
from pykafka.testing.checks.offsets import Owned
from pykafka.testing.history import Assigned, OpenConsumer, Operation


class Owners:
    """Judges who has partitions, and who hands out records of them.

    Kafka lets a member that it has put out read on until it notices. So members of two generations may hand out records of one
    partition at a time; it is a defect if the former owner

    * has given the partition up, or was notified of its loss, or
    * has had `OpenConsumer.notices_ms` without any fault to notice, before the poll began.

    A former owner that commits is judged by the checks of commits, at once: its coordinator has to refuse it.
    """

    def __init__(self, facts: Facts) -> None:
        self._disturbances = facts.disturbances
        self._facts = facts
        self._in_generation: dict[tuple[str, TopicPartition, int], Operation] = {}
        #: The assignment of the newest generation, of the latest one of that.
        self._newest: dict[Owned, Operation] = {}
        #: When each partition went from one member to another one, in a later generation.
        self._taken: dict[Owned, Operation] = {}

    def newest(self, owned: Owned) -> Operation | None:
        """Return the newest assignment that has a partition."""
        return self._newest.get(owned)

    def assign(self, operation: Operation, action: Assigned) -> Iterator[Anomaly]:
        """Take an assignment, and return what is wrong with it."""
        for key in action.partitions:
            owned = action.group, key
            owner = self._in_generation.setdefault((action.group, key, action.generation), operation)
            if owner.process != operation.process:
                sentence = f"{owner.process} and {operation.process} both have {key} in generation {action.generation}"
                yield found(Kind.TWO_OWNERS, f"{sentence} of group {action.group}", owner, operation)
            newest = self._newest.get(owned)
            if newest is None or generation_of(newest) <= action.generation:
                if newest is None or newest.process != operation.process:
                    self._taken[owned] = operation
                self._newest[owned] = operation

    def read(
        self, operation: Operation, consumer: OpenConsumer, held: Collection[TopicPartition], key: TopicPartition
    ) -> Iterator[Anomaly]:
        """Take a poll of a member that has returned records of a partition, and return what is wrong with that.

        :param held: the partitions of the member
        """
        owned = consumer.group, key
        taken, newest = self._taken.get(owned), self._newest.get(owned)
        if key not in held:
            shown = [newest] if newest is not None else []
            sentence = f"{operation.process} was given records of {key}, though it does not have the partition"
            yield found(Kind.READ_AFTER_LOSS, sentence, *shown, operation)
            return
        if taken is None or taken.process == operation.process or consumer.notices_ms is None:
            return
        begun = self._facts.begun[operation.call]
        quiet_since_ms = begun.time_ms - consumer.notices_ms
        if taken.time_ms > quiet_since_ms or self._disturbances.any_between(quiet_since_ms, begun.time_ms):
            return
        sentence = (
            f"{operation.process} was given records of {key}, which {taken.process} has had for "
            f"{begun.time_ms - taken.time_ms} ms, since generation {generation_of(taken)} of group {consumer.group}"
        )
        yield found(Kind.TWO_OWNERS, sentence, taken, begun, operation)


def generation_of(operation: Operation) -> int:
    """Return the generation of an assignment."""
    assert isinstance(operation.action, Assigned)
    return operation.action.generation
