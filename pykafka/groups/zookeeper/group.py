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
from pykafka.metadata.zookeeper import BROKER_IDS
from pykafka.utils import PARTITION_DIGITS, is_number

if TYPE_CHECKING:
    from pykafka.groups.zookeeper.session import SessionState

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

    :param group: the group's name
    :param topic: the topic's name
    :param member: the member's id
    :param session: the member's, which others may use too
    :param timeout_s: for each answer (s)
    """

    def __init__(self, group: str, topic: str, member: str, session: SessionState, timeout_s: float) -> None:
        self._topic = topic
        self.member = member
        self.session = session
        self._timeout_s = timeout_s
        self.ids_path = f"/consumers/{group}/ids"
        self._owners_paths = [f"/consumers/{group}/owners/{name}" for name in (topic, repr(topic.encode()))]

    def answer_within(self, seconds: float) -> None:
        """Wait so long for each answer from now on (s)."""
        self._timeout_s = seconds

    def _call(self, name: str, path: str, *args: Any, **kwargs: Any) -> Any:
        """Ask for something, and wait for the answer; errors as for `SessionState.answer`."""
        (result,) = self.session.ask(name, [path], self._timeout_s, *args, topic=self._topic, **kwargs)
        return self._answer(name, path, result)

    def _answer(self, name: str, path: str, result: Any) -> Any:
        return self.session.answer(result, self._timeout_s, name, path, self._topic)

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

    def leave(self) -> None:
        """Release all partitions, and remove this member."""
        self.keep(())
        self._delete(f"{self.ids_path}/{self.member}")

    def participants(self, watch: Watch | None = None) -> list[str]:
        """Return the ids of all members that consume this topic, in the order that all members agree on.

        :param watch: called when a member joins or leaves
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
                if is_number(number, PARTITION_DIGITS):
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
                "is it alive, and does it divide partitions in the same way? Those of a member that died are free when its "
                "session in ZooKeeper ends",
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

        A ZooKeeper that no broker uses has no such nodes; then the brokers' metadata reports changes.
        """
        for path in (BROKER_IDS, BROKER_TOPICS):
            self._children(path, watch, make=False)
        try:
            self._call("get", f"{BROKER_TOPICS}/{self._topic}", watch=watch)
        except NoNodeError:
            log.debug("ZooKeeper does not know topic %s: metadata has its partitions", self._topic)

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
