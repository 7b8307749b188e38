"""`Admin`: the administration of a cluster, as `client.admin`."""

from __future__ import annotations

from pykafka.admin.acls import AclsAdmin
from pykafka.admin.cluster_info import ClusterAdmin
from pykafka.admin.configs import ConfigsAdmin
from pykafka.admin.log_dirs import LogDirsAdmin
from pykafka.admin.quorum import QuorumAdmin
from pykafka.admin.quotas import QuotasAdmin
from pykafka.admin.reassignments import ReassignmentsAdmin
from pykafka.admin.scram_users import ScramUsersAdmin
from pykafka.admin.tokens import TokensAdmin
from pykafka.admin.transactions import TransactionsAdmin
from pykafka.admin.zookeeper_migration import MigrationAdmin


class Admin(
    MigrationAdmin,
    ConfigsAdmin,
    AclsAdmin,
    ScramUsersAdmin,
    QuotasAdmin,
    TokensAdmin,
    TransactionsAdmin,
    ReassignmentsAdmin,
    LogDirsAdmin,
    QuorumAdmin,
    ClusterAdmin,
):
    """The administration of one cluster: `client.admin`.

    Each call blocks until the brokers have answered, or until its `timeout_ms` has passed. Calls may run in any number of
    threads, greenlets or tasks at a time. Requests to several brokers are all sent before the first answer is read. What has
    moved to another broker is looked for, and asked about again.

    A call that is given items returns `Results`, a mapping with the value of each. By default it raises if an item failed: the
    item's own error if it was the only one, else `AdminError`, whose `.results` has all outcomes. With `raise_errors=False` it
    does not raise for items; `results.errors` has the errors. What concerns the whole call is always raised:
    `UnsupportedVersion` (the text names the release that has the API), `NoBrokersAvailableError`, `ClientClosedError`, and bad
    arguments.
    """
