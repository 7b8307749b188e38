"""A consumer group in ZooKeeper: who is in it, and who owns which partition, in the layout that old consumers share.

    /consumers/{group}/ids/{member}                     the topic's name     one of each member, ephemeral
    /consumers/{group}/owners/{topic}/{leader}-{id}     the member's id      one of each partition that is owned, ephemeral

ZooKeeper calls back in workers of kazoo's own: what is called there sets events and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.protocol.states import KazooState

from pykafka.exceptions import PartitionOwnedError, ZooKeeperError

if TYPE_CHECKING:
    from pykafka.handlers import Handler

log = logging.getLogger(__name__)

BROKER_IDS = "/brokers/ids"
BROKER_TOPICS = "/brokers/topics"

Watch = Callable[..., object]


class Owner(NamedTuple):
    """Who owns a partition: a node of `owners`."""

    slug: str
    member: str
    session: int


class ZooKeeperGroup:
    """The nodes of one group for one topic, as one member reads and writes them.

    State: `lost` and `suspended_since` are set in kazoo's workers and read in the member's; single assignments.

    :param handler: supplies the clock and kazoo's handler
    :param group: the group's name
    :param topic: the topic's name
    :param member: the member's id
    :param timeout_ms: for connecting and for each answer; also the session timeout of an own connection
    :param changed: called when the session's state changes; must not wait
    """

    def __init__(
        self, handler: Handler, group: str, topic: str, member: str, timeout_ms: int, changed: Callable[[], object]
    ) -> None:
        self._handler = handler
        self._topic = topic
        self.member = member
        self._timeout_s = timeout_ms / 1000
        self._changed = changed
        self.ids_path = f"/consumers/{group}/ids"
        self.owners_path = f"/consumers/{group}/owners/{topic}"
        self.client: Any = None
        self._own = False
        #: Why the session's nodes are gone; "" while they are not.
        self.lost = ""
        #: When the connection was lost, where it is.
        self.suspended_since: float | None = None

    @property
    def session_timeout_s(self) -> float:
        """How long ZooKeeper keeps this member's nodes without hearing of it (s), as it was agreed on."""
        agreed = getattr(self.client, "_session_timeout", None)
        return float(agreed) / 1000 if agreed else self._timeout_s

    # -- the connection --------------------------------------------------------------------------------------------

    def connect(self, hosts: str) -> None:
        """Open a connection of its own, which `close` ends.

        :param hosts: "host:port,host:port/chroot"
        :raises ZooKeeperError: none of them answered in time
        """
        client = KazooClient(hosts, timeout=self._timeout_s, handler=self._handler.kazoo())
        try:
            client.start(timeout=self._timeout_s)
        except client.handler.timeout_exception as error:
            raise ZooKeeperError(
                f"ZooKeeper at {hosts} did not answer within {self._timeout_s:g} s; check zookeeper_hosts=, or let "
                "the brokers balance the group (0.9 and later): get_balanced_consumer(..., managed=True)",
                topic=self._topic,
            ) from error
        self._own = True
        self._listen(client)

    def use(self, client: Any) -> None:
        """Use a connection that somebody else opened and will close.

        :param client: a KazooClient, started, on a kazoo handler of the same kind of concurrency
        :raises ZooKeeperError: it is not connected
        """
        if not client.connected:
            raise ZooKeeperError(
                "the KazooClient given as zookeeper= is not connected; start() it first, or give zookeeper_hosts=",
                topic=self._topic,
            )
        self._own = False
        self._listen(client)

    def _listen(self, client: Any) -> None:
        self.client = client
        self.lost = ""
        self.suspended_since = None
        client.add_listener(self._session_changed)

    def _session_changed(self, state: str) -> None:
        if state == KazooState.LOST:
            self.lost = "the ZooKeeper session ended"
            self.suspended_since = None
        elif state == KazooState.SUSPENDED:
            self.suspended_since = self._handler.now()
        else:
            self.suspended_since = None
        self._changed()

    @property
    def connected(self) -> bool:
        """Whether ZooKeeper can be asked now."""
        return self.client is not None and bool(self.client.connected)

    def close(self) -> None:
        """End an own connection; let go of somebody else's. May be repeated."""
        client, self.client = self.client, None
        if client is None:
            return
        client.remove_listener(self._session_changed)
        if self._own:
            client.stop()
            client.close()

    def _ask(self, result: Any) -> Any:
        """Wait for an answer of kazoo's, but not for ever.

        :raises KazooException: ZooKeeper's own
        :raises ZooKeeperError: there was no answer in time
        """
        result.wait(self._timeout_s)
        if not result.ready():
            raise ZooKeeperError(
                f"no answer from ZooKeeper within {self._timeout_s:g} s; check that it is up and can be reached",
                topic=self._topic,
            )
        return result.get()

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        client = self.client
        if client is None:
            raise ZooKeeperError("the connection to ZooKeeper was closed; start() the consumer", topic=self._topic)
        try:
            return self._ask(getattr(client, f"{name}_async")(*args, **kwargs))
        except (NoNodeError, NodeExistsError):
            raise
        except KazooException as error:
            raise ZooKeeperError(
                f"ZooKeeper: {type(error).__name__} {error} from {name} of {args[0]}; trying again may help",
                topic=self._topic,
            ) from error

    # -- members ---------------------------------------------------------------------------------------------------

    def register(self) -> None:
        """Enter this member; a node that a former session of it left behind is replaced."""
        path = f"{self.ids_path}/{self.member}"
        self.lost = ""
        for _ in range(2):
            try:
                self._call("create", path, self._topic.encode(), ephemeral=True, makepath=True)
                return
            except NodeExistsError:
                self._delete(path)
        raise ZooKeeperError("the member's id is taken again and again; are there two of it?", topic=self._topic)

    def unregister(self) -> None:
        """Take this member out."""
        self._delete(f"{self.ids_path}/{self.member}")

    def participants(self, watch: Watch | None = None) -> list[str]:
        """Return the ids of all members that consume this topic, in the order that all of them agree on.

        :param watch: called when a member comes or goes
        """
        found = []
        for member in self._children(self.ids_path, watch):
            try:
                topic, _ = self._call("get", f"{self.ids_path}/{member}")
            except NoNodeError:  # it left in between; the watch will tell
                continue
            if topic == self._topic.encode():
                found.append(member)
        return sorted(found)

    # -- owners ----------------------------------------------------------------------------------------------------

    def owners(self, watch: Watch | None = None) -> dict[int, list[Owner]]:
        """Return who owns each partition that is owned; two where they disagree on its leader, which cannot last.

        :param watch: called when a partition is taken or let go
        """
        found: dict[int, list[Owner]] = {}
        for slug in self._children(self.owners_path, watch):
            number = slug.rpartition("-")[2]
            if not number.isdigit():
                continue
            try:
                member, stat = self._call("get", f"{self.owners_path}/{slug}")
            except NoNodeError:
                continue
            owner = Owner(slug, member.decode(errors="replace"), stat.ephemeralOwner)
            found.setdefault(int(number), []).append(owner)
        return found

    def held(self, watch: Watch | None = None) -> set[int]:
        """Return the ids of the partitions that this member owns in its present session."""
        return {id_ for id_, owners in self.owners(watch).items() if any(map(self._mine, owners))}

    def _mine(self, owner: Owner) -> bool:
        return owner.member == self.member and owner.session == self.client.client_id[0]

    def claim(self, slugs: dict[int, str], partition: Callable[[int], object]) -> None:
        """Take partitions.

        A partition's node is named after its leader, on which two members may disagree for a moment: so whoever finds
        another node of the same partition beside its own gives its own up, and tries again later.

        :param slugs: {partition id: name of its node}
        :param partition: gives what PartitionOwnedError shall name
        :raises PartitionOwnedError: another member has one; those that could be taken are this member's
        """
        taken: list[int] = []
        before = self.owners()
        for id_, slug in slugs.items():
            others = [owner for owner in before.get(id_, []) if owner.member != self.member]
            if others or not self._create(slug):
                taken.append(id_)
        after = self.owners()
        for id_, slug in slugs.items():
            if id_ not in taken and len({owner.member for owner in after.get(id_, [])}) > 1:
                self._delete(f"{self.owners_path}/{slug}")
                taken.append(id_)
        if taken:
            owner = next(iter(after.get(taken[0], [])), None)
            raise PartitionOwnedError(
                partition(taken[0]),
                f"another consumer of the group owns it ({owner.member if owner else 'it has just left'}); "
                "is it alive, and of the same assignment strategy?",
                topic=self._topic,
            )

    def _create(self, slug: str) -> bool:
        path = f"{self.owners_path}/{slug}"
        for _ in range(2):
            try:
                self._call("create", path, self.member.encode(), ephemeral=True, makepath=True)
                return True
            except NodeExistsError:
                owner = self._owner(slug)
                if owner is None or (owner.member == self.member and not self._mine(owner)):
                    self._delete(path)  # of a former session of this member, or gone already
                    continue
                return self._mine(owner)
        return False

    def _owner(self, slug: str) -> Owner | None:
        try:
            member, stat = self._call("get", f"{self.owners_path}/{slug}")
        except NoNodeError:
            return None
        return Owner(slug, member.decode(errors="replace"), stat.ephemeralOwner)

    def release(self, ids: set[int]) -> None:
        """Let partitions go, whatever leader they were taken under."""
        for id_, owners in self.owners().items() if ids else ():
            for owner in owners:
                if id_ in ids and owner.member == self.member:
                    self._delete(f"{self.owners_path}/{owner.slug}")

    # -- nodes -----------------------------------------------------------------------------------------------------

    def watch_brokers(self, watch: Watch) -> None:
        """Have `watch` called when brokers come or go, topics do, or this topic gets partitions; once each.

        A ZooKeeper that no broker uses has no such nodes: what it cannot tell, the brokers' metadata does.
        """
        for path in (BROKER_IDS, BROKER_TOPICS):
            self._children(path, watch, make=False)
        try:
            self._call("get", f"{BROKER_TOPICS}/{self._topic}", watch=watch)
        except NoNodeError:
            log.debug("ZooKeeper does not know topic %s: its partitions are watched by metadata", self._topic)

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
