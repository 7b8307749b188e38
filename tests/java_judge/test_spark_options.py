"""Every option of Kafka's own client as `kafka.*` of format("pykafka"): each is used, taken without effect, or refused."""

from __future__ import annotations

import pytest

from pykafka.spark.javaoptions import WITHOUT_EFFECT, why_refused
from pykafka.spark.optiontable import OPTIONS
from tests.java_judge.kafka_java import run_source
from tests.java_judge.schemas import RELEASES


@pytest.mark.kafka
def test_no_option_of_the_java_client_is_unknown() -> None:
    theirs = {f"kafka.{name}" for name in run_source("ConfigNames.java", RELEASES[0]).split()}
    used = {option.name for option in OPTIONS}
    assert len(theirs) > 100
    assert not theirs - used - WITHOUT_EFFECT - {name for name in theirs if why_refused(name)}
    assert not used & WITHOUT_EFFECT
    assert not {name for name in used | WITHOUT_EFFECT if why_refused(name)}
