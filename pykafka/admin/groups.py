"""Groups of every type: lists, descriptions, deletion, removal of members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from pykafka.admin.results import Listing, Results, fault, operations, outcome
from pykafka.admin.routing import CertainBrokers, Coordinators, RequestFactory
from pykafka.exceptions import GroupIdNotFound, KafkaException, UnsupportedVersion
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
            error = outcome(response.error_code, broker=broker, api="ListGroups")
            return {items[0]: error or [_listed(group, broker) for group in response.groups]}

        asked: RequestFactory[int, list[GroupListing]] = RequestFactory(wire.ListGroupsRequest, request, read)
        placement: CertainBrokers[int] = CertainBrokers(self._cluster, int)
        results = self._ask(self._every_broker(), placement, asked, timeout_ms, raise_errors)
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
        left = names
        for kind, ask in enumerate((_ask_classic, _ask_consumer, _ask_share, _ask_streams)):
            if not left:
                break
            placement: Coordinators[str] = Coordinators(self._cluster, str)
            try:
                answers = self._router.ask(left, placement, ask(authorized_operations), self._left_ms(deadline))
            except UnsupportedVersion:
                if not kind:
                    raise
                break  # these brokers have no such groups
            found.update(answers)
            left = [name for name in left if isinstance(found[name], GroupIdNotFound)]
        results = Results({name: found[name] for name in names})
        if raise_errors:
            results.raise_errors()
        return results

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

        def read(response: wire.DeleteGroupsResponse, items: Sequence[str], broker: Node) -> Mapping[str, Any]:
            return {
                one.group_id: outcome(one.error_code, broker=broker, api="DeleteGroups", what=f"group {one.group_id}")
                for one in response.results
            }

        asked: RequestFactory[str, None] = RequestFactory(wire.DeleteGroupsRequest, request, read, once=True)
        placement: Coordinators[str] = Coordinators(self._cluster, str)
        return self._ask(several(groups, "groups", str), placement, asked, timeout_ms, raise_errors)

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
                error = outcome(response.error_code, broker=broker, api="LeaveGroup", what=what)
                return dict.fromkeys(items, error)
            found: dict[tuple[str, str, bool], KafkaException | None] = {}
            for one in response.members:
                is_static = one.group_instance_id is not None and (group, one.group_instance_id, True) in items
                name = one.group_instance_id if is_static and one.group_instance_id is not None else one.member_id
                what = f"group {group}, member {name}"
                found[group, name, is_static] = outcome(one.error_code, broker=broker, api="LeaveGroup", what=what)
            return found

        asked: RequestFactory[tuple[str, str, bool], None] = RequestFactory(
            wire.LeaveGroupRequest,
            request,
            read,
            once=True,
            most=lambda version: None if version >= _SEVERAL_LEAVE else 1,
        )
        placement: Coordinators[tuple[str, str, bool]] = Coordinators(self._cluster, lambda item: item[0])
        answers = self._router.ask(names.values(), placement, asked, self._left_ms(deadline))
        results: Results[str, None] = Results({name: answers[item] for name, item in names.items()})
        if raise_errors:
            results.raise_errors()
        return results

    def _every_broker(self) -> list[int]:
        if not self._cluster.brokers:
            self._cluster.update([])
        return sorted(self._cluster.brokers)


def _listed(group: wire.ListGroupsResponse.Group, broker: Node) -> GroupListing:
    return GroupListing(
        group.group_id, GroupType.of(group.group_type), GroupState.of(group.group_state), group.protocol_type, broker.id
    )


def _missing(name: str, broker: Node, api: str) -> KafkaException:
    return fault(GroupIdNotFound.ERROR_CODE, broker=broker, api=api, what=f"group {name}")


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
            name, api = group.group_id, "DescribeGroups"
            # Of a group that is of another type or does not exist, older brokers say that it is dead.
            if group.error_code:
                found[name] = fault(group.error_code, group.error_message, broker=broker, api=api, what=f"group {name}")
            elif group.group_state == "Dead":
                found[name] = _missing(name, broker, api)
            else:
                members = tuple(classic_member(one, group.protocol_type in _CONSUMERS) for one in group.members)
                args = (GroupType.CLASSIC, group.protocol_type, group.protocol_data, members, broker)
                found[name] = _described(group, *args)
        return found

    return RequestFactory(wire.DescribeGroupsRequest, request, read)


def _ask_newer(
    api: type[Any],
    authorized_operations: bool,
    described: Callable[[Any, Node], GroupDescription],
) -> RequestFactory[str, GroupDescription]:
    name_of_api = api.__name__.removesuffix("Request")

    def request(items: Sequence[str], broker: Node, left: int) -> Any:
        return api(group_ids=list(items), include_authorized_operations=authorized_operations)

    def read(response: Any, items: Sequence[str], broker: Node) -> Mapping[str, GroupDescription | KafkaException]:
        return {
            group.group_id: outcome(
                group.error_code, group.error_message, broker=broker, api=name_of_api, what=f"group {group.group_id}"
            )
            or described(group, broker)
            for group in response.groups
        }

    return RequestFactory(api, request, read)


def _ask_consumer(authorized_operations: bool) -> RequestFactory[str, GroupDescription]:
    def described(group: wire.ConsumerGroupDescribeResponse.Group, broker: Node) -> GroupDescription:
        members = tuple(consumer_member(one) for one in group.members)
        return _described(group, GroupType.CONSUMER, "consumer", group.assignor_name, members, broker)

    return _ask_newer(wire.ConsumerGroupDescribeRequest, authorized_operations, described)


def _ask_share(authorized_operations: bool) -> RequestFactory[str, GroupDescription]:
    def described(group: wire.ShareGroupDescribeResponse.Group, broker: Node) -> GroupDescription:
        members = tuple(share_member(one) for one in group.members)
        return _described(group, GroupType.SHARE, "share", group.assignor_name, members, broker)

    return _ask_newer(wire.ShareGroupDescribeRequest, authorized_operations, described)


def _ask_streams(authorized_operations: bool) -> RequestFactory[str, GroupDescription]:
    def described(group: wire.StreamsGroupDescribeResponse.Group, broker: Node) -> GroupDescription:
        return _described(group, GroupType.STREAMS, "streams", "", streams_members(group), broker)

    return _ask_newer(wire.StreamsGroupDescribeRequest, authorized_operations, described)
