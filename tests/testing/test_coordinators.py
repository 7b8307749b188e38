"""FindCoordinator, as fake brokers answer it."""

from __future__ import annotations

import pytest

from pykafka.exceptions import GroupCoordinatorNotAvailable, InvalidRequest
from pykafka.protocol import wire
from tests.testing.direct import DirectCluster


@pytest.mark.parametrize("version", range(7))
def test_a_group_has_one_coordinator_in_all_versions(version: int) -> None:
    cluster = DirectCluster(nodes=3)
    for node in (1, 2, 3):
        request = wire.FindCoordinatorRequest(key="g")
        answer = cluster.ask(request, version, node)
        found = answer.coordinators[0] if version >= 4 else answer
        expected = cluster.state.coordinator("group", "g")
        assert expected is not None
        assert (found.error_code, found.node_id) == (0, expected.node_id)


def test_several_keys_and_a_coordinator_that_moves() -> None:
    cluster = DirectCluster(nodes=3)
    cluster.state.coordinators["transaction", "t"] = 3
    request = wire.FindCoordinatorRequest(key_type=1, coordinator_keys=["t", "u"])
    found = {one.key: one.node_id for one in cluster.ask(request).coordinators}
    assert found["t"] == 3
    assert set(found) == {"t", "u"}


@pytest.mark.parametrize("version", [0, 3, 6])
def test_no_broker_is_up(version: int) -> None:
    cluster = DirectCluster(nodes=1)
    cluster.state.nodes[1].is_up = False
    answer = cluster.ask(wire.FindCoordinatorRequest(key="g"), version)
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id) == (GroupCoordinatorNotAvailable.ERROR_CODE, -1)


@pytest.mark.parametrize(
    ("version", "key_type", "key", "code"),
    [
        (6, 2, "g:AAAAAAAAAAAAAAAAAAAAAA:0", 0),
        (6, 2, "g", 42),
        (5, 2, "g:AAAAAAAAAAAAAAAAAAAAAA:0", 42),
        (6, 9, "g", 42),
    ],
)
def test_keys_of_share_groups_and_other_kinds(version: int, key_type: int, key: str, code: int) -> None:
    request = wire.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    assert DirectCluster().ask(request, version).coordinators[0].error_code == code
    assert InvalidRequest.ERROR_CODE == 42
