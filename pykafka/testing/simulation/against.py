"""`RealCluster`: real brokers under the programs of a simulation, and what can go wrong with them."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from random import Random
from typing import Any

from pykafka.admin.topics import NewTopic
from pykafka.client import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.handlers import ThreadingHandler
from pykafka.handlers.base import Handler
from pykafka.testing.history import Fault
from pykafka.testing.simulation.plan import MORE_FAULTS, PlannedFault, Undo
from pykafka.testing.simulation.world import World

#: What a caller can do to a broker: ("kill" | "start" | "pause" | "resume", its id). It returns when that is done.
Control = Callable[[str, int], object]


def _greenlets() -> Handler:
    from pykafka.handlers import GEventHandler  # needs gevent

    return GEventHandler()


#: Handlers by their names on the command line.
HANDLERS: dict[str, Callable[[], Handler]] = {"threads": ThreadingHandler, "gevent": _greenlets}
#: How much later than its deadline a call may end (ms), as machines are busy.
SLACK_MS = 30_000
#: How old the metadata of a broker may be (ms): while brokers come and go, and from then on.
STALE_MS, SETTLES_MS = 300_000, 60_000
#: After the last fault, all that was acknowledged has to be read within this time (ms).
LIVE_MS = 240_000
#: How long a call of the simulation itself may take (ms).
CALL_MS = 60_000
#: The pause between two kills (ms), besides how long a broker is away: it has to catch up.
_BETWEEN_MS = 3_000
_AGAIN_S, _ATTEMPTS = 1.0, 60


class RealCluster:
    """Real brokers, as a simulation uses them. It has a client of its own, for topics and leaders.

    :param hosts: "host:port,host:port"
    :param control: stops and starts brokers; None: nothing can do that
    """

    def __init__(self, hosts: str, handler: Handler, control: Control | None = None) -> None:
        self.hosts = hosts
        self._handler = handler
        self._control = control
        self._client = KafkaClient(hosts, handler=handler, client_id="simulation")
        self.broker_ids = sorted(broker.id for broker in self._call(self._client.admin.describe_cluster).brokers)
        # The calls that put brokers right which are away, by broker.
        self._away: dict[int, str] = {}

    def __enter__(self) -> RealCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def has_control(self) -> bool:
        """Whether brokers can be stopped."""
        return self._control is not None

    def _call(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Make a call of the admin client, again and again while brokers come and go."""
        for _ in range(_ATTEMPTS):
            try:
                return call(*arguments, timeout_ms=CALL_MS)
            except KafkaException:
                self._handler.sleep(_AGAIN_S)
        return call(*arguments, timeout_ms=CALL_MS)

    def create_topics(self, topics: dict[str, int]) -> None:
        """Make topics, {name: partitions}, whose acknowledged records survive one broker."""
        replication = min(3, len(self.broker_ids))
        configs = {"min.insync.replicas": 2} if replication == 3 else {}
        for name, partitions in topics.items():
            self._call(self._client.admin.create_topics, NewTopic(name, partitions, replication, configs))

    def delete_topics(self, suffix: str) -> None:
        """Delete the topics of a run."""
        listed = self._call(self._client.admin.list_topics)
        names = [topic.name for topic in listed if suffix in topic.name]
        self._client.admin.delete_topics(names, timeout_ms=CALL_MS, raise_errors=False)

    def take_away(self, broker: int, how: str, back: str) -> Undo:
        """Kill or pause a broker, unless another one is away; return how to have it back."""
        if self._control is None or self._away:
            return lambda: None
        self._away[broker] = back
        self._control(how, broker)
        return lambda: self._have_back(broker)

    def _have_back(self, broker: int) -> None:
        back = self._away.pop(broker, None)
        if back is not None and self._control is not None:
            self._control(back, broker)

    def heal(self) -> None:
        """Start or resume all brokers that are away."""
        for broker in list(self._away):
            self._have_back(broker)

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Make a broker the preferred leader of a partition, and have it elected."""
        admin = self._client.admin
        (one,) = [
            one
            for one in admin.describe_topics(topic, timeout_ms=CALL_MS)[topic].partitions
            if one.partition == partition
        ]
        if broker in one.replicas:
            replicas = [broker, *(other for other in one.replicas if other != broker)]
            admin.alter_partition_reassignments({(topic, partition): replicas}, timeout_ms=CALL_MS)
            admin.elect_leaders([(topic, partition)], timeout_ms=CALL_MS)


def draw(chance: Random, cluster: RealCluster, topics: dict[str, int], until_ms: int) -> list[PlannedFault]:
    """Return a plan: brokers are away one after the other, and leaders move at any time.

    :param topics: whose leaders move: {name: partitions}
    :param until_ms: when all have begun (ms)
    """
    plan, at_ms = [], chance.randrange(_BETWEEN_MS)
    while cluster.has_control and at_ms < until_ms:
        name, lasts_ms = chance.choice(("real_kill", "real_kill", "real_pause")), chance.choice((500, 3_000, 8_000))
        plan.append(PlannedFault(at_ms, lasts_ms, name, (chance.choice(cluster.broker_ids),)))
        at_ms += lasts_ms + _BETWEEN_MS + chance.randrange(_BETWEEN_MS)
    for _ in range(chance.randrange(5)):
        topic = chance.choice(sorted(topics))
        place = topic, chance.randrange(topics[topic]), chance.choice(cluster.broker_ids)
        plan.append(PlannedFault(chance.randrange(until_ms), 0, "real_move_leader", place))
    return sorted(plan, key=lambda fault: fault.at_ms)


# -- faults --------------------------------------------------------------------------------------------------------------


def _cluster(world: World) -> RealCluster:
    cluster: object = world.cluster
    assert isinstance(cluster, RealCluster)
    return cluster


def _kill(world: World, broker: int) -> Undo:
    return _cluster(world).take_away(broker, "kill", "start")


def _pause(world: World, broker: int) -> Undo:
    return _cluster(world).take_away(broker, "pause", "resume")


def _move_leader(world: World, topic: str, partition: int, broker: int) -> None:
    try:
        _cluster(world).move_leader(topic, partition, broker)
    except KafkaException as error:  # while a broker is away, it cannot be done
        world.history.note("faults", Fault(f"the leader was not moved: {type(error).__name__}"))


MORE_FAULTS.update({"real_kill": _kill, "real_pause": _pause, "real_move_leader": _move_leader})


# -- the command line ----------------------------------------------------------------------------------------------------


def command_control(command: str) -> Control:
    """Return a control that runs a command for each thing to do, as `command kill 2`.

    :param command: words as a shell has them
    """
    words = shlex.split(command)
    return lambda what, broker: subprocess.run([*words, what, str(broker)], check=True)
