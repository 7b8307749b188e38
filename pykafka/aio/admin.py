"""`Admin` for coroutines; written by tools/aio_face.py, do not edit."""

from __future__ import annotations

from pykafka.admin.admin import Admin as _Admin
from pykafka.aio.base import AsyncFacade, coroutine


class Admin(AsyncFacade[_Admin]):
    """The administration of one cluster: `client.admin`.

    As `pykafka.admin.admin.Admin`, which documents parameters and errors.
    """

    list_zookeeper_members = coroutine(_Admin.list_zookeeper_members)
    migrate_group_offsets = coroutine(_Admin.migrate_group_offsets)
    list_group_offsets = coroutine(_Admin.list_group_offsets)
    alter_group_offsets = coroutine(_Admin.alter_group_offsets)
    delete_group_offsets = coroutine(_Admin.delete_group_offsets)
    reset_group_offsets = coroutine(_Admin.reset_group_offsets)
    describe_configs = coroutine(_Admin.describe_configs)
    alter_configs = coroutine(_Admin.alter_configs)
    list_config_resources = coroutine(_Admin.list_config_resources)
    describe_acls = coroutine(_Admin.describe_acls)
    create_acls = coroutine(_Admin.create_acls)
    delete_acls = coroutine(_Admin.delete_acls)
    describe_user_scram_credentials = coroutine(_Admin.describe_user_scram_credentials)
    alter_user_scram_credentials = coroutine(_Admin.alter_user_scram_credentials)
    describe_client_quotas = coroutine(_Admin.describe_client_quotas)
    alter_client_quotas = coroutine(_Admin.alter_client_quotas)
    create_delegation_token = coroutine(_Admin.create_delegation_token)
    renew_delegation_token = coroutine(_Admin.renew_delegation_token)
    expire_delegation_token = coroutine(_Admin.expire_delegation_token)
    describe_delegation_tokens = coroutine(_Admin.describe_delegation_tokens)
    list_transactions = coroutine(_Admin.list_transactions)
    describe_transactions = coroutine(_Admin.describe_transactions)
    describe_producers = coroutine(_Admin.describe_producers)
    find_hanging_transactions = coroutine(_Admin.find_hanging_transactions)
    abort_transaction = coroutine(_Admin.abort_transaction)
    list_topics = coroutine(_Admin.list_topics)
    describe_topics = coroutine(_Admin.describe_topics)
    create_topics = coroutine(_Admin.create_topics)
    delete_topics = coroutine(_Admin.delete_topics)
    create_partitions = coroutine(_Admin.create_partitions)
    delete_records = coroutine(_Admin.delete_records)
    alter_partition_reassignments = coroutine(_Admin.alter_partition_reassignments)
    list_partition_reassignments = coroutine(_Admin.list_partition_reassignments)
    elect_leaders = coroutine(_Admin.elect_leaders)
    describe_log_dirs = coroutine(_Admin.describe_log_dirs)
    alter_replica_log_dirs = coroutine(_Admin.alter_replica_log_dirs)
    list_groups = coroutine(_Admin.list_groups)
    describe_groups = coroutine(_Admin.describe_groups)
    delete_groups = coroutine(_Admin.delete_groups)
    remove_members = coroutine(_Admin.remove_members)
    list_offsets = coroutine(_Admin.list_offsets)
    list_share_group_offsets = coroutine(_Admin.list_share_group_offsets)
    alter_share_group_offsets = coroutine(_Admin.alter_share_group_offsets)
    delete_share_group_offsets = coroutine(_Admin.delete_share_group_offsets)
    describe_metadata_quorum = coroutine(_Admin.describe_metadata_quorum)
    add_raft_voter = coroutine(_Admin.add_raft_voter)
    remove_raft_voter = coroutine(_Admin.remove_raft_voter)
    describe_cluster = coroutine(_Admin.describe_cluster)
    unregister_broker = coroutine(_Admin.unregister_broker)
    describe_features = coroutine(_Admin.describe_features)
    update_features = coroutine(_Admin.update_features)
