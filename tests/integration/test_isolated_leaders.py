"""Real leaders that are cut off from ZooKeeper or the controller: they write on in their old epoch.

`tests/testing/test_isolated_leaders.py` holds the fake cluster to the same answers.
"""

from __future__ import annotations

import pytest

from tests.brokers import LATEST
from tests.support.isolation import EXPECTED, real

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.matrix, pytest.mark.timeout(300)]


@pytest.mark.parametrize("release", ["2.8.2", "3.9.2", LATEST])
def test_a_former_leader_takes_records_that_are_lost(release: str) -> None:
    """With acks=1; acks=all times out, and readers see nothing new. It drops what the new leader lacks when it hears of it."""
    assert real(release) == EXPECTED
