"""Cases of tests that enter no compiled module, of files whose other cases do; `quick-pure` runs them nevertheless."""

from __future__ import annotations

# Of PyKafka 2's protocol classes, only message sets, produce requests and fetch responses contain messages, which are compiled.
_RESPONSES = (
    *[
        "ApiVersions",
        "CreateTopics",
        "DeleteTopics",
        "DescribeGroups",
        "GroupCoordinator",
        "Heartbeat",
        "JoinGroup",
        "LeaveGroup",
    ],
    *["ListGroups", "ListOffset", "Metadata", "OffsetCommit", "OffsetFetch", "Produce", "SyncGroup"],
)
#: The options of pytest that leave them out: begins of ids.
SAME_CASES = [f"--deselect=tests/property/test_documented.py::test_responses[{name}Response" for name in _RESPONSES]
