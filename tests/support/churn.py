"""A group whose members join, stop, hang, vanish and are put out while a producer writes; and what must be true of it.

For any kind of group of `client.consumer(group=...)`: the options of the consumer say which.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any, NamedTuple

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.consumer.committed_offsets import GroupOffsets
from pykafka.exceptions import ConsumerStoppedException, FencedInstanceId, KafkaException, OffsetsNotCommitted
from pykafka.groups.listener import RebalanceListener
from pykafka.kafkaconsumer import KafkaConsumer
from tests.support.inside import engine_of, membership_of
from tests.support.subscribers import put_out
from tests.support.topics import create_topic
from tests.support.waiting import until

PARTITIONS = 4
#: The longest that a member hangs in a batch (s).
HANG_S = 8.0
#: How long a group may take to come to rest (s): a member that has vanished is missed after its session.
REST_S = 60.0


class Chances(NamedTuple):
    """How often each thing happens to a member that is chosen, when nobody joins; the rest stops in good order.

    :param hangs: it handles a batch for up to `HANG_S`, beyond `max_poll_interval_ms` or not
    :param put_out: the coordinator removes it behind its back
    :param vanishes: it ends without a word, as a process that is killed: its session has to end
    :param static: of those that join: it has an instance id, which another one may take over
    """

    hangs: float = 0.05
    put_out: float = 0.2
    vanishes: float = 0.01
    static: float = 0.05


class Owners:
    """The owner of each partition, as the members are told; and who has committed what he had lost."""

    def __init__(self) -> None:
        self._owners: dict[TopicPartition, tuple[int, Member]] = {}
        #: Commits that the coordinator took from a member after another one had been given the partition.
        self.wrong: list[str] = []

    def assigned(self, member: Member, generation: int, keys: list[TopicPartition]) -> None:
        """Note what a member was given.

        One that was put out may hear of a share that is another's by now: by an assignment of an earlier generation.
        """
        for key in keys:
            if generation >= self._owners.get(key, (0, None))[0]:
                self._owners[key] = generation, member

    def of(self, keys: list[TopicPartition]) -> dict[TopicPartition, tuple[int, Member | None]]:
        """Return in which generation each partition was given last, and to whom."""
        return {key: self._owners.get(key, (0, None)) for key in keys}


class Member(RebalanceListener):
    """One member, read by a worker of its own: it commits what each call has returned, by its offsets.

    :param churn: of whose group
    :param options: of the consumer, besides those of the group
    """

    def __init__(self, churn: Churn, **options: Any) -> None:
        self._churn = churn
        self._handler = churn.handler
        #: Until when its worker hangs in a batch (s of the handler's clock).
        self.hangs_until = 0.0
        #: Whether another member has its instance id.
        self.fenced = False
        self.consumer: KafkaConsumer[Any, Any] = churn.client.consumer(
            *churn.topics, group=churn.group, listener=self, **churn.options, **options
        )
        self.worker = self._handler.spawn(self._run)

    # -- the listener ----------------------------------------------------------------------------------------------

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        """Note the share: all of it, or what is new in it."""
        generation = self._generation
        self._churn.generations.add(generation)
        self._churn.owners.assigned(self, generation, partitions)

    # -- the worker ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                self._read()
            except ConsumerStoppedException:
                return
            except FencedInstanceId:
                self.fenced = True
                return
            except OffsetsNotCommitted:
                self._churn.refused += 1
            except KafkaException as error:
                if not error.retriable and "closed" not in str(error):
                    raise

    def _read(self) -> None:
        records = self.consumer.poll(20, 0.1)
        ends: dict[TopicPartition, int] = {}
        for record in records:
            key = TopicPartition(record.topic, record.partition)
            self._churn.reads[key][record.offset] += 1
            ends[key] = record.offset + 1
        while self._handler.now() < self.hangs_until:
            self._handler.sleep(0.05)
        if ends:
            self._commit(ends)

    def _commit(self, ends: dict[TopicPartition, int]) -> None:
        # Asked before: who was given a partition by now has joined after this member was out, so the commit must fail.
        before = self._churn.owners.of(list(ends))
        self.consumer.commit(ends)
        for key, (generation, owner) in before.items():
            if owner is not self:
                whose = "nobody" if owner is None else owner.name
                given = f"{key} was given to {whose} in generation {generation}"
                wrong = f"{self.name} of generation {self._generation} has committed {ends[key]}, but {given}"
                self._churn.owners.wrong.append(wrong)

    @property
    def _generation(self) -> int:
        # Not that of the shares: `close()` forgets these at once, while another worker may still be given partitions.
        return max(int(engine_of(self.consumer).membership.generation_id), 0)

    @property
    def name(self) -> str:
        """The member's id, for messages."""
        membership: Any = membership_of(self.consumer)
        return "nobody" if membership is None else str(membership.identity.member_id)

    # -- what happens to it ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave in good order."""
        self.hangs_until = 0.0
        self.consumer.close()
        assert self.worker.join(30)
        if self.worker.error is not None:
            raise self.worker.error

    def vanish(self) -> None:
        """End without a word to the coordinator."""
        membership: Any = membership_of(self.consumer)
        if membership is not None:
            membership.connection.leave_by = lambda *_: None
        self.close()

    def be_put_out(self) -> None:
        """Remove it from its group, as the coordinator does with one that it has not heard of."""
        membership: Any = membership_of(self.consumer)
        if membership is not None and membership.member_id and membership.config["group_instance_id"] is None:
            put_out(membership, 3000)


class Churn:
    """A group under churn.

    :param client: of all members
    :param seed: of what happens
    :param chances: of what happens to members
    :param options: of the consumers
    :param member: the kind of members; a group of another protocol overrides how they vanish and are put out
    :param most: how many members there are at most
    """

    def __init__(
        self,
        client: KafkaClient,
        seed: int,
        chances: Chances | None = None,
        member: type[Member] = Member,
        most: int = 5,
        **options: Any,
    ) -> None:
        self.client, self.handler = client, client.cluster.handler
        self.random = random.Random(seed)
        self._chances = chances or Chances()
        self._member, self._most = member, most
        self.group = f"g-{uuid.uuid4().hex[:8]}"
        self.topics = [create_topic(client, PARTITIONS).name for _ in range(2)]
        self.keys = sorted(TopicPartition(name, id_) for name in self.topics for id_ in range(PARTITIONS))
        self.options: dict[str, Any] = options
        self.members: list[Member] = []
        self.owners = Owners()
        #: Those in which a member was given a share, or told that it keeps its own.
        self.generations: set[int] = set()
        #: How many commits were refused, and what has happened how often.
        self.refused = 0
        self.happened: Counter[str] = Counter()
        self.reads: dict[TopicPartition, Counter[int]] = defaultdict(Counter)
        self._ends: Counter[TopicPartition] = Counter()
        self._offsets = GroupOffsets(client.cluster, self.group, 100, 5)
        self._committed: dict[TopicPartition, int] = {}

    # -- what happens ----------------------------------------------------------------------------------------------

    def run(self, rebalances: int) -> None:
        """Change the group until there were so many rebalances; then check all."""
        try:
            with self.client.producer(linger_ms=5) as producer:
                while len(self.generations) < rebalances:
                    self._produce(producer, 2)
                    self.step()
            for member in self.members:
                member.hangs_until = 0.0
            until(self.handler, self._is_at_rest, REST_S)
            self.handler.sleep(0.5)
            assert self._is_at_rest(), self._shares()
            until(self.handler, lambda: not self.missing(), REST_S)
            self._check()
        finally:
            for member in list(self.members):
                self._remove(member)

    def _produce(self, producer: Any, count: int) -> None:
        for key in self.keys:
            for _ in range(count):
                producer.produce(key.topic, b"x", partition=key.partition)
            self._ends[key] += count

    def step(self) -> None:
        """Change the group once."""
        for member in [one for one in self.members if one.fenced]:
            self._happens("fenced")
            self._remove(member)
        one = self.random.choice(self.members) if self.members else None
        if one is None or len(self.members) < 2 or (len(self.members) < self._most and self.random.random() < 0.45):
            self._happens("join")
            self._join()
        else:
            self._befall(one, self.random.random())
        self.handler.sleep(self.random.choice((0, 0.05, 0.3)))
        self._look()

    def _befall(self, one: Member, chance: float) -> None:
        hangs, put_out, vanishes, _ = self._chances
        if chance < hangs:
            self._happens("hang")
            one.hangs_until = self.handler.now() + self.random.uniform(0.5, HANG_S)
        elif chance < hangs + put_out:
            self._happens("put out")
            one.be_put_out()
        elif chance < hangs + put_out + vanishes:
            self._happens("vanish")
            self.members.remove(one)
            one.vanish()
        else:
            self._happens("stop")
            self._remove(one)

    def _happens(self, what: str) -> None:
        self.happened[what] += 1

    def _join(self) -> None:
        options: dict[str, Any] = {}
        if self.random.random() < self._chances.static:
            options["group_instance_id"] = f"static-{self.random.randrange(2)}"
        self.members.append(self._member(self, **options))

    def _remove(self, member: Member) -> None:
        if member in self.members:
            self.members.remove(member)
        member.close()

    # -- what must be true -----------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Check that no commit goes back: whoever commits less than another one has lost the partition to it."""
        found = {key: one.offset for key, one in self._offsets.fetch(self.keys).items()}
        back = {key: (self._committed[key], at) for key, at in found.items() if at < self._committed.get(key, -1)}
        assert not back, f"commits went back: {back}"
        self._committed = found

    def _shares(self) -> dict[str, list[TopicPartition]]:
        return {one.name: one.consumer.assignment() for one in self.members}

    def _is_at_rest(self) -> bool:
        """Return whether each partition is read by one member, and no more."""
        for member in [one for one in self.members if one.fenced]:
            self._remove(member)
        return sorted(key for share in self._shares().values() for key in share) == self.keys

    def missing(self) -> dict[TopicPartition, int]:
        """Return how many messages of each partition nobody has read, or committed."""
        self._look()
        unread = {key: end - len(self.reads[key]) for key, end in self._ends.items()}
        return {
            key: max(unread[key], end - self._committed[key])
            for key, end in self._ends.items()
            if unread[key] or self._committed[key] < end
        }

    def _check(self) -> None:
        assert not self.owners.wrong, "; ".join(self.owners.wrong)
        for one in self.members:
            assert one.worker.is_alive(), one.worker.error
        for key, found in self.reads.items():
            assert all(after == before + 1 for before, after in pairwise(sorted(found))), key

    def report(self) -> str:
        """Return figures, for whoever runs it by hand."""
        doubled = sum(found.total() - len(found) for found in self.reads.values())
        total = sum(self._ends.values())
        return (
            f"{len(self.generations)} rebalances ({dict(self.happened)}), {total} messages, {doubled} read again, "
            f"{self.refused} commits refused"
        )
