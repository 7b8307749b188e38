"""`max_poll_interval_ms` counts from the last call of the application, not from polls on its behalf."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from tests.support.subscribers import Member
from tests.support.waiting import until


@pytest.mark.parametrize("by_application", [True, False])
def test_polls_of_a_worker_do_not_keep_a_silent_application_in_the_group(by_application: bool) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 2}) as cluster, KafkaClient(cluster.hosts) as client:
        one = Member(client, "g", ["t"], max_poll_interval_ms=800)
        now = client.cluster.handler.now
        one.serve(None)
        assert len(one.share) == 2

        def poll() -> bool:
            one.subscriber.poll(now() + 0.1, by_application=by_application)
            return "on_lost" in one.hooks.names()

        ends = now() + 2
        until(client.cluster.handler, lambda: poll() or now() > ends)
        assert ("on_lost" in one.hooks.names()) is not by_application
        one.subscriber.leave()
