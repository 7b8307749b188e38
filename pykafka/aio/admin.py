"""`Admin` for coroutines; written by tools/aio_face.py, do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.admin.admin import Admin as _Admin
from pykafka.admin.base import TIMEOUT_MS
from pykafka.admin.cluster_info import UpgradeType
from pykafka.admin.reassignments import ElectionType
from pykafka.admin.transactions import MAX_TRANSACTION_TIMEOUT_MS
from pykafka.aio.admin_groups import MigrationAdmin
from pykafka.handlers.bridge import bridged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any
    from uuid import UUID

    from pykafka.admin.acls import AclBinding, AclFilter
    from pykafka.admin.cluster_info import ClusterDescription, FeatureDescription
    from pykafka.admin.configs import ConfigChange, ConfigResource, Configs, ConfigType
    from pykafka.admin.log_dirs import LogDir, Replica
    from pykafka.admin.quorum import Endpoint, QuorumInfo
    from pykafka.admin.quotas import QuotaEntity, Quotas
    from pykafka.admin.reassignments import PartitionReassignment
    from pykafka.admin.results import Listing, Results
    from pykafka.admin.scram_users import ScramCredentialInfo, UserScramCredentialDeletion, UserScramCredentialUpsertion
    from pykafka.admin.tokens import DelegationToken
    from pykafka.admin.transactions import (
        HangingTransaction,
        Producers,
        ProducerState,
        TransactionDescription,
        TransactionListing,
        TransactionState,
    )
    from pykafka.common import TopicPartition


class Admin(MigrationAdmin[_Admin]):
    """The administration of one cluster: `client.admin`.

    As `pykafka.admin.admin.Admin`, which documents parameters and errors.
    """

    async def describe_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[ConfigResource, Configs]:
        """Return settings: {name: ConfigEntry} of each resource (since Kafka 0.11)."""
        return await bridged(
            self._here.describe_configs,
            resources,
            names=names,
            synonyms=synonyms,
            documentation=documentation,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, Any] | Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[ConfigResource, None]:
        """Change settings one by one; the others stay as they are (since Kafka 2.3)."""
        return await bridged(
            self._here.alter_configs,
            changes,
            validate_only=validate_only,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def list_config_resources(
        self, types: ConfigType | Iterable[ConfigType] = (), *, timeout_ms: int = TIMEOUT_MS
    ) -> list[ConfigResource]:
        """Return the resources that have settings (since Kafka 4.1; subscriptions to clients' metrics since 3.7)."""
        return await bridged(self._here.list_config_resources, types, timeout_ms=timeout_ms)

    async def describe_acls(self, acls: AclFilter | None = None, *, timeout_ms: int = TIMEOUT_MS) -> list[AclBinding]:
        """Return the ACLs that match a filter (since Kafka 0.11)."""
        return await bridged(self._here.describe_acls, acls, timeout_ms=timeout_ms)

    async def create_acls(
        self, acls: AclBinding | Iterable[AclBinding], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[AclBinding, None]:
        """Create ACLs; one that is there already counts as created (since Kafka 0.11)."""
        return await bridged(self._here.create_acls, acls, timeout_ms=timeout_ms, raise_errors=raise_errors)

    async def delete_acls(
        self, acls: AclFilter | Iterable[AclFilter], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[AclFilter, list[AclBinding]]:
        """Delete the ACLs that match filters, and return them (since Kafka 0.11)."""
        return await bridged(self._here.delete_acls, acls, timeout_ms=timeout_ms, raise_errors=raise_errors)

    async def describe_user_scram_credentials(
        self, users: str | Iterable[str] | None = None, *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[str, tuple[ScramCredentialInfo, ...]]:
        """Return mechanisms and iterations of users (since Kafka 2.7)."""
        return await bridged(
            self._here.describe_user_scram_credentials, users, timeout_ms=timeout_ms, raise_errors=raise_errors
        )

    async def alter_user_scram_credentials(
        self,
        changes: UserScramCredentialUpsertion
        | UserScramCredentialDeletion
        | Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Set and delete users' credentials (since Kafka 2.7)."""
        return await bridged(
            self._here.alter_user_scram_credentials, changes, timeout_ms=timeout_ms, raise_errors=raise_errors
        )

    async def describe_client_quotas(
        self, entity: QuotaEntity | None = None, *, strict: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> dict[QuotaEntity, Quotas]:
        """Return quotas: {name: value} of each entity that matches (since Kafka 2.6)."""
        return await bridged(self._here.describe_client_quotas, entity, strict=strict, timeout_ms=timeout_ms)

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[QuotaEntity, None]:
        """Set and remove quotas (since Kafka 2.6)."""
        return await bridged(
            self._here.alter_client_quotas,
            quotas,
            validate_only=validate_only,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: str | Iterable[str] = (),
        max_lifetime_ms: int | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> DelegationToken:
        """Create a token."""
        return await bridged(
            self._here.create_delegation_token,
            owner=owner,
            renewers=renewers,
            max_lifetime_ms=max_lifetime_ms,
            timeout_ms=timeout_ms,
        )

    async def renew_delegation_token(
        self, token: DelegationToken | bytes, period_ms: int | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> int:
        """Put off the end of a token, and return it (ms since 1970)."""
        return await bridged(self._here.renew_delegation_token, token, period_ms, timeout_ms=timeout_ms)

    async def expire_delegation_token(
        self, token: DelegationToken | bytes, period_ms: int | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> int:
        """Bring a token's end forward, and return it (ms since 1970)."""
        return await bridged(self._here.expire_delegation_token, token, period_ms, timeout_ms=timeout_ms)

    async def describe_delegation_tokens(
        self, owners: str | Iterable[str] | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> list[DelegationToken]:
        """Return the tokens that this user may see, the oldest first."""
        return await bridged(self._here.describe_delegation_tokens, owners, timeout_ms=timeout_ms)

    async def list_transactions(
        self,
        *,
        states: TransactionState | Iterable[TransactionState] = (),
        producer_ids: int | Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Listing[TransactionListing]:
        """Return the transactions of all coordinators, by id (since Kafka 3.0)."""
        return await bridged(
            self._here.list_transactions,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=longer_than_ms,
            pattern=pattern,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def describe_transactions(
        self, transactional_ids: str | Iterable[str], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[str, TransactionDescription]:
        """Return the state of transactions (since Kafka 3.0)."""
        return await bridged(
            self._here.describe_transactions, transactional_ids, timeout_ms=timeout_ms, raise_errors=raise_errors
        )

    async def describe_producers(
        self, partitions: Iterable[tuple[str, int]], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[TopicPartition, Producers]:
        """Return the producers with sequence numbers that leaders of partitions know (since Kafka 2.8)."""
        return await bridged(
            self._here.describe_producers, partitions, timeout_ms=timeout_ms, raise_errors=raise_errors
        )

    async def find_hanging_transactions(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        max_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
        timeout_ms: int = TIMEOUT_MS,
    ) -> list[HangingTransaction]:
        """Return transactions that no coordinator will ever end: they stop consumers that read committed messages."""
        return await bridged(
            self._here.find_hanging_transactions, partitions, max_timeout_ms=max_timeout_ms, timeout_ms=timeout_ms
        )

    async def abort_transaction(
        self,
        partition: tuple[str, int],
        producer: ProducerState | None = None,
        *,
        start_offset: int | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """Abort a hanging transaction in a partition. Never do that to one that a coordinator still has."""
        return await bridged(
            self._here.abort_transaction, partition, producer, start_offset=start_offset, timeout_ms=timeout_ms
        )

    async def alter_partition_reassignments(
        self,
        replicas: Mapping[tuple[str, int], Sequence[int] | None],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Begin to move partitions to other brokers, or cancel moves (since Kafka 2.4)."""
        return await bridged(
            self._here.alter_partition_reassignments, replicas, timeout_ms=timeout_ms, raise_errors=raise_errors
        )

    async def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the moves that are under way (since Kafka 2.4)."""
        return await bridged(self._here.list_partition_reassignments, partitions, timeout_ms=timeout_ms)

    async def elect_leaders(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        election: ElectionType = ElectionType.PREFERRED,
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, bool]:
        """Elect leaders of partitions (since Kafka 2.2)."""
        return await bridged(
            self._here.elect_leaders, partitions, election, timeout_ms=timeout_ms, raise_errors=raise_errors
        )

    async def describe_log_dirs(
        self,
        brokers: int | Iterable[int] | None = None,
        *,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[int, tuple[LogDir, ...]]:
        """Return the directories of brokers, with the replicas in each (since Kafka 1.0)."""
        return await bridged(
            self._here.describe_log_dirs,
            brokers,
            partitions=partitions,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )

    async def alter_replica_log_dirs(
        self, paths: Mapping[tuple[str, int, int], str], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[Replica, None]:
        """Begin to move replicas to other directories of their brokers (since Kafka 1.0)."""
        return await bridged(self._here.alter_replica_log_dirs, paths, timeout_ms=timeout_ms, raise_errors=raise_errors)

    async def describe_metadata_quorum(self, *, timeout_ms: int = TIMEOUT_MS) -> QuorumInfo:
        """Return leader, voters and observers of the quorum (since Kafka 3.3)."""
        return await bridged(self._here.describe_metadata_quorum, timeout_ms=timeout_ms)

    async def add_raft_voter(
        self, voter: int, directory_id: UUID, endpoints: Endpoint | Iterable[Endpoint], *, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        """Make a running controller a voter (since Kafka 3.9, with a dynamic quorum)."""
        return await bridged(self._here.add_raft_voter, voter, directory_id, endpoints, timeout_ms=timeout_ms)

    async def remove_raft_voter(self, voter: int, directory_id: UUID, *, timeout_ms: int = TIMEOUT_MS) -> None:
        """Take a controller out of the voters (since Kafka 3.9, with a dynamic quorum)."""
        return await bridged(self._here.remove_raft_voter, voter, directory_id, timeout_ms=timeout_ms)

    async def describe_cluster(
        self, *, authorized_operations: bool = False, fenced_brokers: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> ClusterDescription:
        """Return the brokers of the cluster; all releases do."""
        return await bridged(
            self._here.describe_cluster,
            authorized_operations=authorized_operations,
            fenced_brokers=fenced_brokers,
            timeout_ms=timeout_ms,
        )

    async def unregister_broker(self, broker_id: int, *, timeout_ms: int = TIMEOUT_MS) -> None:
        """Make a cluster without ZooKeeper forget a broker that is gone for good (since Kafka 3.3)."""
        return await bridged(self._here.unregister_broker, broker_id, timeout_ms=timeout_ms)

    async def describe_features(self, *, timeout_ms: int = TIMEOUT_MS) -> FeatureDescription:
        """Return the features of the cluster (since Kafka 2.7)."""
        return await bridged(self._here.describe_features, timeout_ms=timeout_ms)

    async def update_features(
        self,
        levels: Mapping[str, int],
        upgrade: UpgradeType = UpgradeType.UPGRADE,
        *,
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Change the levels of features, all or none since Kafka 4.0 (since Kafka 2.7; useful since 3.3)."""
        return await bridged(
            self._here.update_features,
            levels,
            upgrade,
            validate_only=validate_only,
            timeout_ms=timeout_ms,
            raise_errors=raise_errors,
        )
