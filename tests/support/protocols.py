"""The group protocol of tests' consumers: "auto", the default, or the one that GROUP_PROTOCOL names.

`GROUP_PROTOCOL=classic pytest tests/integration/groups` runs on new brokers what "auto" takes on old ones, in all tests that
name no protocol. Parts of the matrix do so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pykafka.groups.options import SubscriberOptions
from tests.support.features import kafka_since

GROUP_PROTOCOL = os.environ.get("GROUP_PROTOCOL", "auto")
#: Options that make members of the classic protocol quick; with "auto" they choose it.
QUICK: dict[str, Any] = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6000}


def make_default() -> None:
    """Make the protocol of GROUP_PROTOCOL that of each `client.consumer()` which names none."""
    if GROUP_PROTOCOL == "auto":
        return
    own = SubscriberOptions.of

    def of(given: Mapping[str, Any]) -> SubscriberOptions:
        return own({"protocol": GROUP_PROTOCOL, **given})

    SubscriberOptions.of = staticmethod(of)  # type: ignore[method-assign]


def quick_member(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with those of a member that notices rebalances soon, by the protocol that a user gets.

    Where the broker assigns it has the test brokers' short heartbeats, and "range", which both protocols have, so that the
    assignments of a test are the same by both.
    """
    quick: dict[str, Any] = {"metadata_max_age_ms": 1000, "protocol": GROUP_PROTOCOL}
    protocol = options.get("protocol", GROUP_PROTOCOL)
    of_both = "group_instance_id" not in options and options.get("assignor", "range") == "range"
    if protocol == "auto" and kafka_since(4, 0) and of_both:
        quick["assignor"] = "range"
    else:
        quick |= QUICK
    return {**quick, **options}
