"""The fake cluster answers as the real brokers of each release did."""

from __future__ import annotations

import pytest

from pykafka.testing import Authorizer, FakeCluster
from pykafka.testing.call import APIS
from pykafka.testing.releases import RELEASES, Release
from tests.conformance.programs import PROGRAMS
from tests.conformance.recorded import Transcript, differences, read
from tests.conformance.speaker import run


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_fake_answers_as_recorded(release: Release, program: str) -> None:
    """Each program of requests gets the answers that a real broker of the release gave."""
    acls = Authorizer(is_open=True)
    with FakeCluster(1, as_version=release.name, default_partitions=1, authorizer=acls) as cluster:
        cluster.set_group_settings(initial_rebalance_delay_ms=0)
        found = run(PROGRAMS[program], cluster.hosts, release.numbers)
    expected = read(release.name)[program]
    assert differences(played(expected) if program == "api_versions" else expected, found) == []


def played(expected: Transcript) -> Transcript:
    """Return what is expected of ApiVersions, without the APIs that fake brokers do not have."""
    return [[label, [error, [row for row in rows if row[0] in APIS]]] for label, (error, rows) in expected]
