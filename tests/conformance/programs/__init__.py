"""The programs: each talks with one broker. They use topics and groups of their own, so their order does not matter."""

from tests.conformance.programs.administration import ACLS, ADMINISTRATION
from tests.conformance.programs.groupadministration import GROUP_ADMINISTRATION
from tests.conformance.programs.groups import GROUPS
from tests.conformance.programs.permissions import PERMISSIONS
from tests.conformance.programs.reading import READING
from tests.conformance.programs.rebalances import REBALANCES
from tests.conformance.programs.sharegroups import SHARE_GROUPS
from tests.conformance.programs.staticmembers import STATIC_MEMBERS
from tests.conformance.programs.topics import TOPICS
from tests.conformance.programs.transactionepochs import TRANSACTION_EPOCHS
from tests.conformance.programs.transactions import TRANSACTIONS
from tests.conformance.programs.writing import WRITING

#: Those that need a broker with ACLs.
NEED_ACLS = (*PERMISSIONS, *ACLS)
_ALL = (
    *TOPICS,
    *WRITING,
    *READING,
    *GROUPS,
    *STATIC_MEMBERS,
    *REBALANCES,
    *GROUP_ADMINISTRATION,
    *TRANSACTIONS,
    *TRANSACTION_EPOCHS,
    *SHARE_GROUPS,
    *ADMINISTRATION,
    *NEED_ACLS,
)
#: By name.
PROGRAMS = {program.__name__: program for program in _ALL}

__all__ = ["NEED_ACLS", "PROGRAMS"]
