"""Every error code of ours against Kafka's own list of them."""

from __future__ import annotations

import pytest

from pykafka.exceptions import (
    ERROR_CODES,
    GroupCoordinatorNotAvailable,
    NotController,
    NotCoordinatorForGroup,
)
from tests.java_judge.kafka_java import run_source
from tests.java_judge.schemas import RELEASES

#: Kafka's client forgets a coordinator or controller upon these in other ways than by the class of the exception.
OTHERWISE_STALE = {GroupCoordinatorNotAvailable, NotCoordinatorForGroup, NotController}


@pytest.mark.kafka
def test_every_error_code_is_as_kafka_has_it() -> None:
    theirs = {}
    for line in run_source("ErrorCodes.java", RELEASES[0]).splitlines():
        code, name, retriable, invalid_metadata = line.split()
        if code != "0":
            theirs[int(code)] = (name, retriable == "true", invalid_metadata == "true")
    ours = {
        code: (error.NAME, error.retriable, error.invalid_metadata and error not in OTHERWISE_STALE)
        for code, error in ERROR_CODES.items()
    }
    assert ours == theirs
