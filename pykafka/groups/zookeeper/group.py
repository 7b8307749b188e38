"""A consumer group in ZooKeeper: its members and the owners of partitions, in the layout of PyKafka 2.x.

    /consumers/{group}/ids/{member}                     the topic's name     one for each member, ephemeral
    /consumers/{group}/owners/{topic}/{leader}-{id}     the member's id      one for each owned partition, ephemeral

PyKafka 2.x on Python 3 looks for owners under `b'{topic}'`, with those very quotes, where it meant `{topic}`. So each owner
stands in both places, and neither kind of consumer takes a partition of the other.

kazoo runs watches in workers of its own; ours set events there and do nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kazoo.exceptions import NodeExistsError, NoNodeError

from pykafka.exceptions import PartitionOwnedError, ZooKeeperError
from pykafka.groups.zookeeper.session import SessionState
from pykafka.handlers.interrupts import FinalSteps
from pykafka.metadata.configs import DEFAULT_ZOOKEEPER
from pykafka.metadata.zookeeper import BROKER_IDS, KAZOO_S, end_session, is_connected, new_client
from pykafka.network.addresses import parse_address

if TYPE_CHECKING:
    from pykafka.handlers import Handler

log = logging.getLogger(__name__)

BROKER_TOPICS = "/brokers/topics"

Watch = Callable[..., object]


class Owner(NamedTuple):
    """The owner of a partition: a node of `owners`."""

    path: str
    member: str
    session: int


class ZooKeeperGroup:
    """The nodes of one group for one topic, as one member reads and writes them.

    State: belongs to the member's workers; what kazoo's workers change is in `session`.

    :param handler: supplies the clock and kazoo's handler
    :param group: the group's name
    :param topic: the topic's name
    :param member: the member's id
    :param timeout_ms: for connecting and for each answer (ms); also the session timeout of an own connection
    :param changed: called when the session's state changes; must not wait
    """

    def __init__(
        self, handler: Handler, group: str, topic: str, member: str, timeout_ms: int, changed: Callable[[], object]
    ) -> None:
        self._handler = handler
        self._topic = topic
        self.member = member
        self._timeout_s = timeout_ms / 1000
        self._patience_s = 2 * self._timeout_s + KAZOO_S
        self._changed = changed
        self._ending = FinalSteps(handler, "pykafka.ZooKeeper.end")
        self.ids_path = f"/consumers/{group}/ids"
        self._owners_paths = [f"/consumers/{group}/owners/{name}" for name in (topic, repr(topic.encode()))]
        self._session: SessionState | None = None
        #: What `may_own` says while there is no session: as of the last one.
        self._owned = True
        #: How to end the session's use by this object.
        self._end: Callable[[], object] = _nothing

    @property
    def session(self) -> SessionState:
        """The session, as far as this member knows it.

        :raises ZooKeeperError: there is none
        """
        if self._session is None:
            raise ZooKeeperError("the connection to ZooKeeper was closed; start() the consumer", topic=self._topic)
        return self._session

    def may_own(self) -> bool:
        """Return whether this member still owns its partitions, as far as it can tell."""
        return self._owned if self._session is None else self._session.may_own()

    # -- the connection --------------------------------------------------------------------------------------------

    def connect(self, hosts: str) -> None:
        """Open a connection, which `close` ends.

        :param hosts: "host:port,host:port/chroot"
        :raises ZooKeeperError: no host answered in time, or `hosts` is the default and nothing listens there
        """
        if hosts == DEFAULT_ZOOKEEPER:
            self._check_default()
        client = new_client(hosts, self._handler, self._timeout_s)
        connected, began = False, self._handler.now()
        try:
            connected = is_connected(client, self._timeout_s)
        finally:
            if not connected:  # it would go on connecting
                self._ending.take(partial(end_session, client), self._patience_s)
        if not connected:
            raise ZooKeeperError(
                f"ZooKeeper at {hosts} did not answer within {self._timeout_s:g} s; check zookeeper_hosts=, or let "
                "the brokers balance the group (0.9 and later): get_balanced_consumer(..., managed=True)",
                topic=self._topic,
            )
        session = SessionState(self._handler, client, self._changed, began)
        self.use_session(session)

        def end() -> None:
            session.end()
            # beside the caller: kazoo's client would go on with its threads after an interrupt
            self._ending.take(partial(end_session, client), self._patience_s)

        self._end = end

    def _check_default(self) -> None:
        """Raise at once if nothing listens at the default address, which most users never gave on purpose.

        kazoo goes on trying for as long as ZooKeeper may take to start, which is right for an address that the user gave.
        """
        try:
            (address, *_) = self._handler.resolve(*parse_address(DEFAULT_ZOOKEEPER))
            self._handler.connect(address, self._timeout_s).close()
        except ConnectionRefusedError as error:
            raise ZooKeeperError(
                f"a balanced consumer looks for ZooKeeper at {DEFAULT_ZOOKEEPER} by default, where nothing listens; pass "
                "managed=True to have the brokers coordinate the group (Kafka 0.9 and later), or the address of ZooKeeper "
                'as zookeeper_connect="host:port"',
                topic=self._topic,
            ) from error
        except OSError as error:
            log.debug("whether ZooKeeper listens at %s cannot be found out: %s", DEFAULT_ZOOKEEPER, error)

    def use(self, client: Any) -> None:
        """Use a connection that the application has opened and will close.

        :param client: a KazooClient, started, on a kazoo handler of the same kind of concurrency
        :raises ZooKeeperError: it is not connected
        """
        if "_pykafka_parent" in vars(client):
            raise ZooKeeperError(
                "the KazooClient given as zookeeper= belongs to the parent process; after a fork make another, and a consumer "
                "with it",
                topic=self._topic,
            )
        if not client.connected:
            raise ZooKeeperError(
                "the KazooClient given as zookeeper= is not connected; start() it first, or give zookeeper_hosts=",
                topic=self._topic,
            )
        session = SessionState(self._handler, client, self._changed)
        self.use_session(session)
        self._end = session.end

    def use_session(self, session: SessionState) -> None:
        """Use the session of another object, which ends it.

        :param session: its state
        """
        self._session = session

    @property
    def client(self) -> Any:
        """The KazooClient; None while there is none."""
        return None if self._session is None else self._session.client

    @property
    def connected(self) -> bool:
        """Whether there is a connection now, as far as kazoo knows."""
        return self._session is not None and self._session.connected

    def close(self) -> None:
        """End an own connection; leave the application's open. May be repeated."""
        end, self._end = self._end, _nothing
        self._owned = self.may_own()
        self._session = None
        end()

    def answer_within(self, seconds: float) -> None:
        """Wait so long for each answer from now on (s)."""
        self._timeout_s = seconds

    def _call(self, name: str, path: str, *args: Any, **kwargs: Any) -> Any:
        """Ask for something, and wait for the answer; errors as of `SessionState.answer`."""
        (result,) = self.session.ask(name, [path], self._timeout_s, *args, topic=self._topic, **kwargs)
        return self._answer(name, path, result)

    def _answer(self, name: str, path: str, result: Any) -> Any:
        return self.session.answer(result, self._timeout_s, name, path, self._topic)

    def leave_to_parent(self) -> None:
        """Disable this process' copy of the connection after a fork."""
        session, self._session, self._end = self._session, None, _nothing
        if session is not None:
            session.leave_to_parent(self._handler.cooperative)

    # -- members ---------------------------------------------------------------------------------------------------

    def register(self) -> None:
        """Add this member; replace a node that a former session of it has left behind."""
        path = f"{self.ids_path}/{self.member}"
        for _ in range(2):
            try:
                self._call("create", path, self._topic.encode(), ephemeral=True, makepath=True)
                return
            except NodeExistsError:
                self._delete(path)
        raise ZooKeeperError(
            "another session takes the member's id again and again; do two consumers have the same id?",
            topic=self._topic,
        )

    def unregister(self) -> None:
        """Remove this member."""
        self._delete(f"{self.ids_path}/{self.member}")

    def participants(self, watch: Watch | None = None) -> list[str]:
        """Return the ids of all members that consume this topic, in the order that all members agree on.

        :param watch: called when a member comes or goes
        """
        found = []
        for member in self._children(self.ids_path, watch):
            try:
                topic, _ = self._call("get", f"{self.ids_path}/{member}")
            except NoNodeError:  # it has just left; the watch will report that
                continue
            if topic == self._topic.encode():
                found.append(member)
        return sorted(found)

    # -- owners ----------------------------------------------------------------------------------------------------

    def owners(self, watch: Watch | None = None) -> dict[int, list[Owner]]:
        """Return the owners of each owned partition: one member, except for moments in which members disagree.

        :param watch: called when a member takes or releases a partition
        """
        found: dict[int, list[Owner]] = {}
        nodes = self._nodes(watch)
        # all requests go out before the first answer is awaited
        results = self.session.ask("get", [path for _, path in nodes], self._timeout_s, topic=self._topic)
        for (id_, path), result in zip(nodes, results, strict=True):
            owner = self._owner(path, partial(self._answer, "get", path, result))
            if owner is not None:
                found.setdefault(id_, []).append(owner)
        return found

    def owned(self) -> set[int]:
        """Return the ids of the partitions that have an owner."""
        return {id_ for id_, _ in self._nodes(None)}

    def _nodes(self, watch: Watch | None) -> list[tuple[int, str]]:
        found = []
        for path in self._owners_paths:
            for slug in self._children(path, watch):
                number = slug.rpartition("-")[2]
                if number.isdigit():
                    found.append((int(number), f"{path}/{slug}"))
        return found

    def _owner(self, path: str, answer: Callable[[], Any]) -> Owner | None:
        try:
            member, stat = answer()
        except NoNodeError:  # just released
            return None
        return Owner(path, member.decode(errors="replace"), stat.ephemeralOwner)

    def held(self, watch: Watch | None = None) -> set[int]:
        """Return the ids of the partitions that this member owns in its present session.

        :param watch: as for `owners`
        """
        places = len(self._owners_paths)
        return {
            id_
            for id_, owners in self.owners(watch).items()
            if len({owner.path.rpartition("/")[0] for owner in owners if self._mine(owner)}) == places
        }

    def _mine(self, owner: Owner) -> bool:
        return owner.member == self.member and owner.session == self.session.session_id(self._topic)

    def claim(self, slugs: dict[int, str], partition: Callable[[int], object]) -> None:
        """Make this member the owner of partitions.

        The name of a partition's node has the leader's id, on which two members may disagree for a moment. So a member that
        finds the node of another member beside its own deletes its own, and tries again later.

        :param slugs: {partition id: name of its node}
        :param partition: returns the partition of an id, for PartitionOwnedError
        :raises PartitionOwnedError: another member owns one of them; this member owns the others
        """
        before = self.owners()
        others = {
            id_
            for id_, slug in slugs.items()
            if any(owner.member != self.member for owner in before.get(id_, [])) or not self._take(slug)
        }
        after = self.owners()
        for id_ in set(slugs) - others:
            if any(owner.member != self.member for owner in after.get(id_, [])):
                self._delete_owned(after[id_])
                others.add(id_)
        if others:
            first = min(others)
            names = {owner.member for owner in after.get(first, []) if owner.member != self.member}
            raise PartitionOwnedError(
                partition(first),
                f"another consumer of the group owns it ({', '.join(names) or 'it has just left'}); "
                "is it alive, and does it divide partitions in the same way?",
                topic=self._topic,
            )

    def _take(self, slug: str) -> bool:
        """Enter this member as the owner of a partition in all places, or in none."""
        made: list[str] = []
        for place in self._owners_paths:
            path = f"{place}/{slug}"
            if not self._create(path):
                for one in made:
                    self._delete(one)
                return False
            made.append(path)
        return True

    def _create(self, path: str) -> bool:
        for _ in range(2):
            try:
                self._call("create", path, self.member.encode(), ephemeral=True, makepath=True)
                return True
            except NodeExistsError:
                owner = self._owner(path, partial(self._call, "get", path))
                if owner is not None and self._mine(owner):
                    return True
                if owner is not None and owner.member != self.member:
                    return False
            self._delete(path)  # of a former session of this member, or gone already
        return False

    def release(self, ids: set[int]) -> None:
        """Release partitions, whatever leader's id their nodes have.

        :param ids: of the partitions
        """
        for id_, owners in self.owners().items() if ids else ():
            if id_ in ids:
                self._delete_owned(owners)

    def keep(self, ids: Collection[int]) -> None:
        """Release all partitions but these, also those that this member has entered in one place alone.

        An answer that came too late may have left a node of a partition, which would keep other members from it.

        :param ids: of the partitions that stay
        """
        for id_, owners in self.owners().items():
            if id_ not in ids:
                self._delete_owned(owners)

    def _delete_owned(self, owners: list[Owner]) -> None:
        for owner in owners:
            if owner.member == self.member:
                self._delete(owner.path)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def watch_brokers(self, watch: Watch) -> None:
        """Call `watch`, once each, when brokers or topics come or go, or this topic gets partitions.

        A ZooKeeper that no broker uses has no such nodes; then the brokers' metadata tells of changes.
        """
        for path in (BROKER_IDS, BROKER_TOPICS):
            self._children(path, watch, make=False)
        try:
            self._call("get", f"{BROKER_TOPICS}/{self._topic}", watch=watch)
        except NoNodeError:
            log.debug("ZooKeeper does not know topic %s: metadata tells of its partitions", self._topic)

    def _children(self, path: str, watch: Watch | None, make: bool = True) -> list[str]:
        try:
            return list(self._call("get_children", path, watch=watch))
        except NoNodeError:
            if not make:
                return []
        self._call("ensure_path", path)
        return list(self._call("get_children", path, watch=watch))

    def _delete(self, path: str) -> None:
        try:
            self._call("delete", path)
        except NoNodeError:
            log.debug("%s is gone already", path)


def _nothing() -> None:
    """End nothing."""
