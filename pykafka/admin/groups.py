"""Groups of every type: lists, descriptions, deletion, removal of members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pykafka.admin.base import TIMEOUT_MS, AdminBase, several
from pykafka.admin.group_types import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
    classic_member,
    consumer_member,
    share_member,
    streams_members,
)
from pykafka.admin.releases import need, version_of
from pykafka.admin.results import Listing, Results, checked, fault, operations, response_error
from pykafka.admin.routing import CertainBrokers, Coordinators, RequestFactory
from pykafka.exceptions import GroupIdNotFound, KafkaException, NoBrokersAvailableError, UnsupportedVersion
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node

#: The protocol types of groups of consumers.
_CONSUMERS = ("consumer", "")
_BY_STATE, _BY_TYPE = 4, 5
_SEVERAL_LEAVE = 3


class GroupsAdmin(AdminBase):
    """The groups that the brokers coordinate."""

    def list_groups(
        self,
        *,
        types: GroupType | Iterable[GroupType] = (),
        states: GroupState | Iterable[GroupState] = (),
        protocol_types: str | Iterable[str] = (),
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Listing[GroupListing]:
        """Return all groups by name (since Kafka 0.9). Each broker lists those that it coordinates.

        :param types: these alone; none stands for all
        :param states: groups in these states alone (since Kafka 2.6); none stands for all
        :param protocol_types: "consumer", "connect", ... alone; "" has only offsets; none stands for all
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise if a broker does not answer; else its groups are missing, see `Listing`
        """
        deadline = self._deadline(timeout_ms)
        kinds = set(several(types, "types", GroupType))
        conditions = set(several(states, "states", GroupState))
        protocols = set(several(protocol_types, "protocol_types", str))

        def request(items: Sequence[int], broker: Node, left: int) -> wire.ListGroupsRequest:
            made = wire.ListGroupsRequest()
            version = version_of(broker, wire.ListGroupsRequest)
            if conditions:
                need(broker, wire.ListGroupsRequest, _BY_STATE, "a list by states", "2.6")
                made.states_filter = [state.value for state in conditions]
            if kinds and version >= _BY_TYPE:
                made.types_filter = [kind.value for kind in kinds]
            return made

        def read(
            response: wire.ListGroupsResponse, items: Sequence[int], broker: Node
        ) -> Mapping[int, list[GroupListing] | KafkaException]:
            return {items[0]: response_error(response) or [_listed(group, broker) for group in response.groups]}

        factory = RequestFactory(wire.ListGroupsRequest, request, read)
        target = CertainBrokers[int](self._cluster, int)
        results = self._ask(self._every_broker(deadline), target, factory, self._left_ms(deadline), raise_errors)
        listed = self._once((one for groups in results.values() for one in groups), lambda one: one.group, deadline)
        found = [
            group
            for group in listed
            if (not kinds or group.type in kinds) and (not protocols or group.protocol_type in protocols)
        ]
        return Listing(found, results.errors)

    def describe_groups(
        self,
        groups: str | Iterable[str],
        *,
        authorized_operations: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, GroupDescription]:
        """Return state and members of groups of any type (since Kafka 0.9).

        :param groups: a name, or several
        :param authorized_operations: also what this user may do with them (since Kafka 2.3)
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for groups that failed, see `Results`
        :raises GroupIdNotFound: there is no such group
        """
        names: list[str] = several(groups, "groups", str)
        deadline = self._deadline(timeout_ms)
        found: dict[str, GroupDescription | KafkaException] = {}
        if len(names) > 1:
            with suppress(NoBrokersAvailableError):
                found = self._of_any_type(names, authorized_operations, deadline, hasty=True)
        late = [name for name in names if name not in found or _may_pass(found[name])]
        if late and (not found or self._cluster.handler.now() < deadline):
            found |= self._of_any_type(late, authorized_operations, deadline)
        return checked(Results({name: found[name] for name in names}), raise_errors)

    def _of_any_type(
        self, names: list[str], authorized_operations: bool, deadline: float, hasty: bool = False
    ) -> dict[str, GroupDescription | KafkaException]:
        """Describe groups, by the requests for one type of them after another.

        :param hasty: if a coordinator hangs, leave time for the other types: groups of other coordinators may be of these
        """
        found: dict[str, GroupDescription | KafkaException] = {}
        left = names
        target = Coordinators[str](self._cluster, str)
        for kind, ask in enumerate(_ASKED_BY_TYPE):
            if not left:
                break
            within_ms = self._left_ms(deadline)
            if hasty:
                within_ms = max(1, within_ms // (len(_ASKED_BY_TYPE) + 1 - kind))
            try:
                answers = self._router.ask(left, target, ask(authorized_operations), within_ms)
                target.keep()
            except UnsupportedVersion:
                if not kind:
                    raise
                break  # these brokers have no such groups
            found.update(answers)
            left = [name for name in left if isinstance(found[name], GroupIdNotFound)]
        return found

    def delete_groups(
        self, groups: str | Iterable[str], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[str, None]:
        """Delete groups without members, and with them their offsets (since Kafka 1.1).

        :param groups: a name, or several
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for groups that failed, see `Results`
        :raises NonEmptyGroup: the group has members
        :raises GroupIdNotFound: there is no such group
        """

        def request(items: Sequence[str], broker: Node, left: int) -> wire.DeleteGroupsRequest:
            return wire.DeleteGroupsRequest(groups_names=list(items))

        factory: RequestFactory[str, None] = RequestFactory(
            wire.DeleteGroupsRequest,
            request,
            lambda response, items, broker: {
                result.group_id: response_error(result, f"group {result.group_id}") for result in response.results
            },
            once=True,
        )
        names: list[str] = several(groups, "groups", str)
        return self._ask(names, Coordinators[str](self._cluster, str), factory, timeout_ms, raise_errors)

    def remove_members(
        self,
        group: str,
        members: str | Iterable[str] | None = None,
        *,
        instance_ids: str | Iterable[str] = (),
        reason: str = "removed by an administrator",
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Remove members from a group; those that still run join again.

        :param group: its name
        :param members: member ids; None, without `instance_ids`, removes all members
        :param instance_ids: of static members (since Kafka 2.4)
        :param reason: for the broker's log (since Kafka 3.2)
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for members that failed, see `Results`
        :return: by member id, or instance id
        :raises UnknownMemberId: the group has no such member
        """
        static = list(several(instance_ids, "instance_ids", str))
        dynamic = [] if members is None else list(several(members, "members", str))
        deadline = self._deadline(timeout_ms)
        if members is None and not static:
            described = self.describe_groups(group, timeout_ms=timeout_ms)[group].members
            dynamic = [one.member_id for one in described]
        names = {one: (group, one, False) for one in dynamic} | {one: (group, one, True) for one in static}

        def request(items: Sequence[tuple[str, str, bool]], broker: Node, left: int) -> wire.LeaveGroupRequest:
            make = wire.LeaveGroupRequest.Member
            if version_of(broker, wire.LeaveGroupRequest) < _SEVERAL_LEAVE:
                if items[0][2]:
                    need(broker, wire.LeaveGroupRequest, _SEVERAL_LEAVE, "removal of static members", "2.4")
                return wire.LeaveGroupRequest(group_id=group, member_id=items[0][1])
            return wire.LeaveGroupRequest(
                group_id=group,
                members=[
                    make(member_id="", group_instance_id=name, reason=reason)
                    if is_static
                    else make(member_id=name, reason=reason)
                    for _, name, is_static in items
                ],
            )

        def read(
            response: wire.LeaveGroupResponse, items: Sequence[tuple[str, str, bool]], broker: Node
        ) -> Mapping[tuple[str, str, bool], KafkaException | None]:
            if response.error_code or not response.members:
                what = f"group {group}" + (f", member {items[0][1]}" if len(items) == 1 else "")
                return dict.fromkeys(items, response_error(response, what))
            found: dict[tuple[str, str, bool], KafkaException | None] = {}
            for one in response.members:
                is_static = one.group_instance_id is not None and (group, one.group_instance_id, True) in items
                name = one.group_instance_id if is_static and one.group_instance_id is not None else one.member_id
                found[group, name, is_static] = response_error(one, f"group {group}, member {name}")
            return found

        factory = RequestFactory(
            wire.LeaveGroupRequest,
            request,
            read,
            once=True,
            most=lambda version: None if version >= _SEVERAL_LEAVE else 1,
        )
        answers = self._router.ask(names.values(), self._named(group), factory, self._left_ms(deadline))
        results: Results[str, None] = Results({name: answers[item] for name, item in names.items()})
        return checked(results, raise_errors)

    def _every_broker(self, deadline: float) -> list[int]:
        """Return the numbers of all brokers that there are now: one that was away may coordinate groups again.

        :param deadline: of the call (s, of the handler's clock)
        """
        try:
            self._cluster.update([], self._left_ms(deadline))
        except NoBrokersAvailableError:
            if not self._cluster.brokers:
                raise
        return sorted(self._cluster.brokers)


def _may_pass(outcome: object) -> bool:
    """Return whether an outcome is an error after which asking again may help."""
    return isinstance(outcome, KafkaException) and outcome.retriable


def _listed(group: wire.ListGroupsResponse.Group, broker: Node) -> GroupListing:
    return GroupListing(
        group.group_id, GroupType.of(group.group_type), GroupState.of(group.group_state), group.protocol_type, broker.id
    )


def _described(
    group: Any,
    kind: GroupType,
    protocol_type: str,
    assignor: str,
    members: tuple[MemberDescription, ...],
    broker: Node,
) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        kind,
        GroupState.of(group.group_state),
        protocol_type,
        assignor,
        broker.id,
        members,
        getattr(group, "group_epoch", None),
        getattr(group, "assignment_epoch", None),
        operations(group.authorized_operations),
    )


def _ask_classic(authorized_operations: bool) -> RequestFactory[str, GroupDescription]:
    def request(items: Sequence[str], broker: Node, left: int) -> wire.DescribeGroupsRequest:
        made = wire.DescribeGroupsRequest(groups=list(items))
        if authorized_operations:
            need(broker, wire.DescribeGroupsRequest, 3, "authorized_operations", "2.3")
            made.include_authorized_operations = True
        return made

    def read(
        response: wire.DescribeGroupsResponse, items: Sequence[str], broker: Node
    ) -> Mapping[str, GroupDescription | KafkaException]:
        found: dict[str, GroupDescription | KafkaException] = {}
        for group in response.groups:
            what = f"group {group.group_id}"
            # Older brokers return the state Dead for a group of another type, or one that does not exist.
            error = response_error(group, what)
            if error is None and group.group_state == "Dead":
                error = fault(GroupIdNotFound.ERROR_CODE, what=what)
            if error is not None:
                found[group.group_id] = error
            else:
                members = tuple(classic_member(member, group.protocol_type in _CONSUMERS) for member in group.members)
                args = (GroupType.CLASSIC, group.protocol_type, group.protocol_data, members, broker)
                found[group.group_id] = _described(group, *args)
        return found

    return RequestFactory(wire.DescribeGroupsRequest, request, read)


def _ask_newer(
    api: type[Any],
    kind: GroupType,
    members: Callable[[Any], tuple[MemberDescription, ...]],
) -> Callable[[bool], RequestFactory[str, GroupDescription]]:
    def read(response: Any, items: Sequence[str], broker: Node) -> Mapping[str, GroupDescription | KafkaException]:
        return {
            group.group_id: response_error(group, f"group {group.group_id}")
            or _described(group, kind, kind.value, getattr(group, "assignor_name", "") or "", members(group), broker)
            for group in response.groups
        }

    def ask(authorized_operations: bool) -> RequestFactory[str, GroupDescription]:
        return RequestFactory(
            api,
            lambda items, broker, left: api(group_ids=list(items), include_authorized_operations=authorized_operations),
            read,
        )

    return ask


_ask_consumer = _ask_newer(
    wire.ConsumerGroupDescribeRequest,
    GroupType.CONSUMER,
    lambda group: tuple(consumer_member(member) for member in group.members),
)
_ask_share = _ask_newer(
    wire.ShareGroupDescribeRequest, GroupType.SHARE, lambda group: tuple(share_member(one) for one in group.members)
)
_ask_streams = _ask_newer(wire.StreamsGroupDescribeRequest, GroupType.STREAMS, streams_members)
_ASKED_BY_TYPE = (_ask_classic, _ask_consumer, _ask_share, _ask_streams)
