"""A coordinator that refuses the login has not answered: the group may have another one by now."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from pykafka.compat.coordinator.offsets import MemberOffsets
from pykafka.consumer.committed_offsets import GroupOffsets
from pykafka.exceptions import GroupAuthorizationFailed, KafkaException, SaslAuthenticationFailed
from pykafka.groups.classic.coordinator import AbstractCoordinator

ERRORS = pytest.mark.parametrize(
    ("error", "asked_anew"), [(SaslAuthenticationFailed("not let in"), True), (GroupAuthorizationFailed(), False)]
)


@ERRORS
def test_commits_ask_for_the_coordinator_anew(error: KafkaException, asked_anew: bool) -> None:
    clock = SimpleNamespace(now=lambda: 0.0, random=random.Random(1))
    offsets = GroupOffsets(mock.Mock(handler=clock, may_pass=lambda error: error.retriable), "g", 100, 3)
    offsets._coordinator = mock.Mock()
    with pytest.raises(type(error)):
        offsets._retrying(mock.Mock(side_effect=error))
    assert (offsets._coordinator is None) is asked_anew


@ERRORS
@pytest.mark.parametrize(
    "react", [AbstractCoordinator._failed, lambda self, error: MemberOffsets._on_error(self, error, None)]
)
def test_members_ask_for_it_anew(react: Any, error: KafkaException, asked_anew: bool) -> None:
    connection = mock.Mock(closing=False)
    react(mock.Mock(connection=connection, _connection=connection), error)
    assert connection.mark_unknown.called is asked_anew
