"""`MigrationAdmin` for coroutines; written by tools/aio_face.py, do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pykafka.admin.base import TIMEOUT_MS
from pykafka.admin.zookeeper_migration import MigrationAdmin as _MigrationAdmin
from pykafka.aio.base import AsyncFacade
from pykafka.handlers.bridge import bridged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from pykafka.admin.group_offsets import Committed
    from pykafka.admin.group_types import GroupDescription, GroupListing, GroupState, GroupType
    from pykafka.admin.offsets import ListedOffset, OffsetChange, OffsetSpec
    from pykafka.admin.results import Listing, Results
    from pykafka.admin.share_offsets import Offsets
    from pykafka.admin.topics import CreatedTopic, NewPartitions, NewTopic, TopicDescription, TopicListing
    from pykafka.admin.zookeeper_migration import OffsetMove, Store
    from pykafka.common import OffsetAndMetadata, TopicPartition


A = TypeVar("A", bound=_MigrationAdmin)


class MigrationAdmin(AsyncFacade[A]):
    """The moves of a group between ZooKeeper and the brokers.

    As `pykafka.admin.zookeeper_migration.MigrationAdmin`, which documents parameters and errors.
    """

    async def list_zookeeper_members(
        self, group: str, *, zookeeper_hosts: str | None = None, timeout_ms: int = TIMEOUT_MS
    ) -> dict[str, frozenset[str] | None]:
        """Return the live members of a group in ZooKeeper: {member id: topics that it reads, or None for a pattern}."""
        return await bridged(
            self._here.list_zookeeper_members, group, zookeeper_hosts=zookeeper_hosts, timeout_ms=timeout_ms
        )

    async def migrate_group_offsets(
        self,
        group: str,
        to: Store = "kafka",
        *,
        zookeeper_hosts: str | None = None,
        topics: str | Iterable[str] = (),
        overwrite: bool = False,
        dry_run: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, OffsetMove]:
        """Copy the committed offsets of a group without members from ZooKeeper to Kafka, or back, and read them again."""
        return await bridged(
            self._here.migrate_group_offsets,
            group,
            to,
            zookeeper_hosts=zookeeper_hosts,
            topics=topics,
            overwrite=overwrite,
            dry_run=dry_run,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def list_group_offsets(
        self,
        groups: str | Iterable[str] | Mapping[str, Iterable[tuple[str, int]] | None],
        *,
        require_stable: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, Committed]:
        """Return the committed offsets of groups: {partition: OffsetAndMetadata} of each; only of partitions that have one."""
        return await bridged(
            self._here.list_group_offsets,
            groups,
            require_stable=require_stable,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Commit offsets for a group without members, each that of the next message to consume (since Kafka 0.9)."""
        return await bridged(
            self._here.alter_group_offsets, group, offsets, timeout_ms=timeout_ms, raise_errors=raise_errors
        )

    async def delete_group_offsets(
        self,
        group: str,
        partitions: Iterable[tuple[str, int]],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Delete committed offsets of topics that no member of the group reads (since Kafka 2.4)."""
        return await bridged(
            self._here.delete_group_offsets, group, partitions, timeout_ms=timeout_ms, raise_errors=raise_errors
        )

    async def reset_group_offsets(
        self,
        group: str,
        to: OffsetSpec | Mapping[tuple[str, int], OffsetSpec] | Mapping[TopicPartition, OffsetSpec],
        *,
        topics: str | Iterable[str] = (),
        partitions: Iterable[tuple[str, int]] = (),
        dry_run: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, OffsetChange]:
        """Commit for a group without members the offset at a place, in each partition. It may be a share group."""
        return await bridged(
            self._here.reset_group_offsets,
            group,
            to,
            topics=topics,
            partitions=partitions,
            dry_run=dry_run,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def list_topics(self, *, internal: bool = False, timeout_ms: int = TIMEOUT_MS) -> list[TopicListing]:
        """Return all topics by name."""
        return await bridged(self._here.list_topics, internal=internal, timeout_ms=timeout_ms)

    async def describe_topics(
        self,
        topics: str | Iterable[str],
        *,
        authorized_operations: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, TopicDescription]:
        """Return partitions, leaders and replicas of topics. This creates no topic."""
        return await bridged(
            self._here.describe_topics,
            topics,
            authorized_operations=authorized_operations,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def create_topics(
        self,
        topics: NewTopic | Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, CreatedTopic]:
        """Create topics, and wait a moment until the brokers know them (since Kafka 0.10.1)."""
        return await bridged(
            self._here.create_topics,
            topics,
            validate_only=validate_only,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def delete_topics(
        self, topics: str | UUID | Iterable[str | UUID], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[str | UUID, None]:
        """Delete topics with all their messages, and wait a moment until they are gone (since Kafka 0.10.1)."""
        return await bridged(self._here.delete_topics, topics, timeout_ms=timeout_ms, raise_errors=raise_errors)

    async def create_partitions(
        self,
        partitions: Mapping[str, int] | NewPartitions | Iterable[NewPartitions],
        *,
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Give topics more partitions (since Kafka 1.0)."""
        return await bridged(
            self._here.create_partitions,
            partitions,
            validate_only=validate_only,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def delete_records(
        self, offsets: Mapping[tuple[str, int], int], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[TopicPartition, int]:
        """Delete the messages before an offset, in each partition (since Kafka 0.11)."""
        return await bridged(self._here.delete_records, offsets, timeout_ms=timeout_ms, raise_errors=raise_errors)

    async def list_groups(
        self,
        *,
        types: GroupType | Iterable[GroupType] = (),
        states: GroupState | Iterable[GroupState] = (),
        protocol_types: str | Iterable[str] = (),
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Listing[GroupListing]:
        """Return all groups by name (since Kafka 0.9). Each broker lists those that it coordinates."""
        return await bridged(
            self._here.list_groups,
            types=types,
            states=states,
            protocol_types=protocol_types,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def describe_groups(
        self,
        groups: str | Iterable[str],
        *,
        authorized_operations: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, GroupDescription]:
        """Return state and members of groups of any type (since Kafka 0.9)."""
        return await bridged(
            self._here.describe_groups,
            groups,
            authorized_operations=authorized_operations,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def delete_groups(
        self, groups: str | Iterable[str], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[str, None]:
        """Delete groups without members, and with them their offsets (since Kafka 1.1)."""
        return await bridged(self._here.delete_groups, groups, timeout_ms=timeout_ms, raise_errors=raise_errors)

    async def remove_members(
        self,
        group: str,
        members: str | Iterable[str] | None = None,
        *,
        instance_ids: str | Iterable[str] = (),
        reason: str = "removed by an administrator",
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Remove members from a group; those that still run join again."""
        return await bridged(
            self._here.remove_members,
            group,
            members,
            instance_ids=instance_ids,
            reason=reason,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def list_offsets(
        self,
        places: Mapping[tuple[str, int], OffsetSpec],
        *,
        read_committed: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, ListedOffset]:
        """Return the offset at a place, in each partition."""
        return await bridged(
            self._here.list_offsets,
            places,
            read_committed=read_committed,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def list_share_group_offsets(
        self, groups: str | Iterable[str], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[str, Offsets]:
        """Return how far share groups have come: {partition: ShareGroupOffset} of each."""
        return await bridged(
            self._here.list_share_group_offsets, groups, timeout_ms=timeout_ms, raise_errors=raise_errors
        )

    async def alter_share_group_offsets(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Set where a share group without members starts."""
        return await bridged(
            self._here.alter_share_group_offsets, group, offsets, timeout_ms=timeout_ms, raise_errors=raise_errors
        )

    async def delete_share_group_offsets(
        self, group: str, topics: str | Iterable[str], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[str, None]:
        """Delete the offsets of topics from a share group without members."""
        return await bridged(
            self._here.delete_share_group_offsets, group, topics, timeout_ms=timeout_ms, raise_errors=raise_errors
        )
