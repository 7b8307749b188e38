"""`storm`: faults that meet in the same second, as one of them alone seldom does harm; and faults that only storms need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from pykafka.protocol import wire
from pykafka.testing.names import api_key

if TYPE_CHECKING:
    from pykafka.protocol.schema import Response
    from pykafka.testing.call import Call
    from pykafka.testing.simulation.world import World
    from pykafka.testing.topics import Partition

#: The name and the arguments of a fault.
Named = tuple[str, tuple[Any, ...]]
#: When a fault of a storm begins, after the storm (ms); how long it lasts (ms), its name and its arguments.
Step = tuple[int, tuple[int, str, tuple[Any, ...]]]

#: How long the faults of a storm are apart at most (ms).
GAP_MS = 300
#: APIs of the members of groups, of commits, and of transactions.
_MEMBERS = ("JoinGroup", "SyncGroup", "Heartbeat")
_COMMITS = ("OffsetCommit", "TxnOffsetCommit")
_TRANSACTIONS = ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
#: Why a coordinator puts a member out.
_EXPULSIONS = ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND")


# -- faults --------------------------------------------------------------------------------------------------------------


def late(world: World, api: str, milliseconds: int, times: int) -> Callable[[], None]:
    """Carry the next requests of an API out later, also if their clients have given up and hung up by then.

    :param milliseconds: how much later (ms)
    :param times: how many requests
    """
    key, left = api_key(api), times
    ended = False

    def delay(call: Call) -> None:
        nonlocal left
        if call.request.api_key != key or left <= 0:
            return
        left -= 1
        with world.cluster._locked():
            call.wait(lambda: ended, milliseconds, delay)

    end_hook = world.cluster.on_request(delay)

    def end() -> None:
        nonlocal ended
        end_hook()
        with world.cluster._locked() as state:
            ended = True
            state.waiters.wake(delay)

    return end


def forget(world: World, topic: str, partition: int) -> None:
    """Make the log forget its idempotent producers, as after a day."""
    with world.cluster._locked() as state:
        log = state.topics[topic].partitions[partition].log
        known = log.producers.by_id
        for producer_id in [one for one in known if one not in log.open_transactions]:
            del known[producer_id]


def forget_often(world: World, topic: str, partition: int) -> Callable[[], object]:
    """Make the log forget its idempotent producers before each request, so that it takes batches of any number."""

    def look(call: Call) -> None:
        if isinstance(call.request, wire.ProduceRequest):
            forget(world, topic, partition)

    return world.cluster.on_request(look)


def move_leader(world: World, topic: str, partition: int) -> None:
    """Make the next replica the leader that has all records."""
    with world.cluster._locked() as state:
        if topic not in state.topics:  # it is being made anew
            return
        found = state.topics[topic].partitions[partition]
        at = found.replicas.index(found.leader) if found.leader in found.replicas else 0
        others = [*found.replicas[at + 1 :], *found.replicas[:at]]
        heirs = [
            node
            for node in others
            if node in found.isr and state.nodes[node].is_up and found.copied_by(node) == found.log.end
        ]
    if heirs:
        world.cluster.set_leader(topic, partition, heirs[0])


def early_batches(world: World, topic: str) -> Callable[[], None]:
    """Begin and end answers of Fetch with a batch that the consumer has had, as a broker must not, but one has done."""

    def repeat(call: Call, response: Response) -> None:
        if isinstance(response, wire.FetchResponse):
            with world.cluster._locked() as state:
                found = state.topics[topic]
                for answered in response.responses:
                    if topic == answered.topic or found.id == answered.topic_id:
                        for partition in answered.partitions:
                            partition.records = _with_early(
                                found.partitions[partition.partition_index], partition.records
                            )

    return world.cluster.on_answer(repeat)


def _with_early(partition: Partition, records: Any) -> Any:
    """Return the records of an answer between two copies of the batch before them."""
    data = b"".join(records or ())
    first = int.from_bytes(data[:8], "big")
    batches = partition.log.batches
    before = [batch.data for batch in batches if batch.next_offset <= first][-1:]
    size, ends = 0, {0}
    for batch in batches:
        if batch.base_offset >= first:
            size += len(batch.data)
            ends.add(size)
    if not data or len(data) not in ends:  # the last batch is cut off: nothing can follow it
        return records
    return [*before, data, *before]


def length(lasts_ms: int, name: str, arguments: tuple[Any, ...]) -> int:
    """Return how long a fault lasts (ms): its end carries late requests out, so it comes when they are due.

    :param lasts_ms: as drawn (ms)
    """
    return lasts_ms + arguments[1] if name == "late" else lasts_ms


def subscriptions(chance: Random, until_ms: int) -> list[Step]:
    """Return losses of heartbeats by which members report their subscriptions and partitions, one after another.

    :param until_ms: when all have begun (ms)
    """
    place = chance.choice(("before", "after", "after"))
    times = range(chance.randrange(400), until_ms, chance.choice((500, 900)))
    return [(at_ms, (400, "cut", ("ConsumerGroupHeartbeat", place, 2))) for at_ms in times]


def returns(chance: Random, until_ms: int) -> list[Step]:
    """Return losses and delays of heartbeats for the time in which members leave a topic and come back to it at once.

    :param until_ms: when all have begun (ms)
    """
    if chance.random() < 0.5:
        return subscriptions(chance, until_ms)
    named = ("late", ("ConsumerGroupHeartbeat", chance.choice((100, 300)), 30))
    return [(0, (length(until_ms, *named), *named))]


def lost_sessions(chance: Random, until_ms: int) -> list[Step]:
    """Return refusals of share sessions that the broker still has, one after another.

    :param until_ms: when all have begun (ms)
    """
    steps: list[Step] = []
    for at_ms in range(chance.randrange(400), until_ms, chance.choice((300, 700))):
        error = chance.choice(("SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"))
        api, late_ms = chance.choice(("ShareFetch", "ShareAcknowledge")), chance.choice((0, 100, 400))
        steps.append((at_ms, (600, "fail", (api, error, 1, None, late_ms))))
    return steps


def late_ends(chance: Random, until_ms: int) -> list[Step]:
    """Return requests to end transactions that come late, when their producers have asked once more: one after another.

    :param until_ms: when all have begun (ms)
    """
    late_ms = (1_500, 2_500, 4_000)
    return [
        (at_ms, (length(1_000, *named), *named))
        for at_ms in range(chance.randrange(400), until_ms, 900)
        for named in [("late", ("EndTxn", chance.choice(late_ms), 1))]
    ]


def limits(chance: Random, topic: str, until_ms: int) -> list[Step]:
    """Return times in which a topic takes small batches only, so that larger ones are cut in two.

    :param until_ms: when all have begun (ms)
    """
    steps: list[Step] = []
    for at_ms in range(chance.randrange(400), until_ms, 1_500):
        steps.append((at_ms, (chance.choice((300, 1_000)), "limit", (topic, chance.choice((150, 400))))))
    return steps


def forgetting(chance: Random, topic: str, partitions: int, until_ms: int) -> list[Step]:
    """Return times in which a log takes batches of any number, and leaders refuse some without saying whether they have them.

    :param partitions: how many the topic has
    :param until_ms: when all have begun (ms)
    """
    steps: list[Step] = []
    for at_ms in range(chance.randrange(400), until_ms, 1_000):
        steps.append((at_ms, (1_000, "forget_often", (topic, chance.randrange(partitions)))))
        refused = ("Produce", "REQUEST_TIMED_OUT", chance.randint(1, 3), None, chance.choice((0, 100)))
        steps.append((at_ms + 100, (900, "fail", refused)))
    return steps


# -- storms --------------------------------------------------------------------------------------------------------------


def _refusals(chance: Random, topic: str, partition: int) -> list[Named]:
    """A leader refuses some batches late, and moves meanwhile."""
    error = chance.choice(("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"))
    return [
        ("fail", ("Produce", error, chance.randint(1, 3), None, chance.choice((0, 100, 500)))),
        *[("move_leader", (topic, partition))] * chance.randint(0, 2),
    ]


def _lost_answers(chance: Random, topic: str, partition: int) -> list[Named]:
    """Batches are written, their answers are lost, and what is sent then is refused."""
    lost = ("cut", ("Produce", "after", chance.randint(1, 3))) if chance.random() < 0.5 else ("hold", ("Produce",))
    errors = "NOT_ENOUGH_REPLICAS", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH", "INVALID_RECORD"
    steps: list[Named] = [lost, ("fail", ("Produce", chance.choice(errors), chance.randint(1, 3)))]
    return [*steps, *[("move_leader", (topic, partition))] * chance.randint(0, 1)]


def _forgotten(chance: Random, topic: str, partition: int) -> list[Named]:
    """A log forgets its producers while batches are refused or lost."""
    trouble: list[Named] = [
        ("fail", ("Produce", "UNKNOWN_TOPIC_OR_PARTITION", 1, None, chance.choice((0, 100)))),
        ("fail", ("Produce", "NOT_ENOUGH_REPLICAS", 1, None, chance.choice((0, 100)))),
        ("cut", ("Produce", "before", 1)),
    ]
    return [("forget", (topic, partition)), chance.choice(trouble), ("forget", (topic, partition))]


def _lost_or_late(chance: Random, api: str) -> Named:
    """Requests of an API, or their answers, are lost or late."""
    named: tuple[Named, ...] = (
        ("cut", (api, chance.choice(("before", "after")), chance.randint(1, 8))),
        ("hold", (api,)),
        ("late", (api, chance.choice((500, 2_500)), chance.randint(1, 3))),
    )
    return chance.choice(named)


def _expulsion(chance: Random) -> list[Named]:
    """The coordinator puts a member out, of whichever protocol."""
    return [
        ("fail", ("Heartbeat", "UNKNOWN_MEMBER_ID", 1)),
        ("fail", ("ConsumerGroupHeartbeat", chance.choice(_EXPULSIONS), 1)),
    ]


def _rebalances(chance: Random, coordinated: Sequence[tuple[str, str]], broker: int) -> list[Named]:
    """Members are put out, or their requests are lost, while others are late."""
    steps = _expulsion(chance)
    steps += [_lost_or_late(chance, api) for api in (*chance.sample(_MEMBERS, 2), "ConsumerGroupHeartbeat")]
    chance.shuffle(steps)
    steps.append(_lost_or_late(chance, chance.choice(_COMMITS)))
    if chance.random() < 0.3:
        steps.append(("move_coordinator", (*chance.choice(coordinated), broker)))
    return steps


def _transactions(chance: Random, coordinated: Sequence[tuple[str, str]], broker: int) -> list[Named]:
    """The requests of a transaction are late or lost, and its end takes long."""
    steps = [_lost_or_late(chance, api) for api in chance.sample(_TRANSACTIONS, 2)]
    if chance.random() < 0.5:
        steps.append(("hold_markers", ()))
        steps += _expulsion(chance)
    if chance.random() < 0.3:
        steps.append(("move_coordinator", (*chance.choice(coordinated), broker)))
    return steps


def _laggards(chance: Random, topic: str, partition: int, brokers: Sequence[int]) -> list[Named]:
    """Leaders move, and most brokers do not hear of it, or only the former leader: it writes on in its old epoch."""
    if chance.random() < 0.5:
        preferred = brokers[partition % len(brokers)]  # it leads, unless something has moved the leadership before
        return [("isolate", (preferred,)), ("move_leader", (topic, partition))]
    names = [("isolate", (number,)) for number in chance.sample(list(brokers), len(brokers) - 1)]
    return [*names, *[("move_leader", (topic, partition))] * chance.randint(1, 3)]


def storm(
    chance: Random,
    topics: dict[str, int],
    brokers: Sequence[int],
    coordinated: Sequence[tuple[str, str]],
    lossy: Sequence[str] = (),
    forgetful: Sequence[str] = (),
) -> list[Step]:
    """Return faults that begin shortly after one another.

    :param topics: their numbers of partitions
    :param coordinated: (kind, name) of groups and transactional ids
    :param lossy: topics of unclean elections
    :param forgetful: topics whose logs forget producers
    """
    kinds = ["refusals", "lost answers"] * 3 + ["rebalances", "transactions"] * 2 + ["laggards"]
    kinds += ["unclean"] * (4 * len(lossy)) + ["forgotten"] * (6 * len(forgetful))
    kind, broker = chance.choice(kinds), chance.choice(brokers)
    topic = chance.choice(lossy if kind == "unclean" else forgetful if kind == "forgotten" else sorted(topics))
    partition = chance.randrange(topics[topic])
    if kind == "refusals":
        steps = _refusals(chance, topic, partition)
    elif kind == "lost answers":
        steps = _lost_answers(chance, topic, partition)
    elif kind == "rebalances":
        steps = _rebalances(chance, coordinated, broker)
    elif kind == "transactions":
        steps = _transactions(chance, coordinated, broker)
    elif kind == "laggards":
        steps = _laggards(chance, topic, partition, brokers)
    elif kind == "unclean":
        steps = [("unclean", (topic, partition)), ("late", ("Fetch", 3_000, chance.randint(1, 4)))]
    else:
        steps = _forgotten(chance, topic, partition)
    found: list[Step] = []
    at_ms = 0
    for name, arguments in steps:
        lasts_ms = chance.choice((300, 1_000, 3_000))
        found.append((at_ms, (length(lasts_ms, name, arguments), name, arguments)))
        at_ms += chance.randrange(GAP_MS)
    return found
