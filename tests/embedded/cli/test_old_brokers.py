"""kafka-tools on the embedded cluster, which lacks groups' lists and more: what can be done is, and a watch goes on."""

from __future__ import annotations

from pykafka.cli.exit_status import Status
from pykafka.cli.listing import MAX_RETRIES
from pykafka.embedded import EmbeddedCluster
from tests.support.kafka_tools import commit, data, fill, runner


def test_a_broker_that_creates_no_topics(embedded: EmbeddedCluster) -> None:
    embedded.create_topic("topic", 2)
    embedded.set_api_versions("CreateTopics", -1, -1)
    run = runner("-b", embedded.hosts)
    fill(embedded.hosts, "topic", 6)
    assert [one["topic"] for one in data(run("print_topics", "--json"))] == ["topic"]
    assert len(data(run("desc_topic", "topic", "--json"))["partitions"]) == 2
    assert len(run("consume_topic", "topic", "-l", "6").stdout_bytes.splitlines()) == 6
    commit(embedded.hosts, "topic", "group")
    assert data(run("print_consumer_lag", "topic", "group", "--json"))["total"] == 6
    assert run("doctor", "--topic", "topic").exit_code == Status.OK
    assert "0.10.1" in run("create_topic", "more", status=Status.UNSUPPORTED).stderr


def test_a_partition_without_a_leader(embedded: EmbeddedCluster) -> None:
    embedded.create_topic("topic", 2)
    embedded.set_leader("topic", 1, None)
    run = runner("-b", embedded.hosts)
    first, second = data(run("desc_topic", "topic", "--json"))["partitions"]
    assert first["latest"] == 0
    assert (second["leader"], second["leader_address"], second["latest"]) == (None, None, None)
    assert data(run("print_topics", "--json"))[0]["without_leader"] == 1
    assert (
        "no broker leads"
        in runner("--socket_timeout_ms", "500", "-b", embedded.hosts)(
            "print_consumer_lag", "topic", "group", status=Status.FAILED
        ).stderr
    )


def test_a_watch_goes_on_after_what_passes(embedded: EmbeddedCluster) -> None:
    embedded.create_topic("topic", 1)
    commit(embedded.hosts, "topic", "group")
    run = runner("-b", embedded.hosts)
    watch = ("print_consumer_lag", "topic", "group", "--watch", "0.01", "--times", "3", "--json")
    # One answer, then more refusals than one look at the lag puts up with.
    embedded.inject_errors("OffsetFetch", 0, *["COORDINATOR_LOAD_IN_PROGRESS"] * (MAX_RETRIES + 1))
    result = run(*watch)
    assert len(result.stdout.splitlines()) == 3
    assert "COORDINATOR_LOAD_IN_PROGRESS" in result.stderr


def test_a_watch_ends_with_what_does_not_pass(embedded: EmbeddedCluster) -> None:
    embedded.create_topic("topic", 1)
    commit(embedded.hosts, "topic", "group")
    run = runner("-b", embedded.hosts)
    watch = ("print_consumer_lag", "topic", "group", "--watch", "0.01", "--times", "3", "--json")
    embedded.inject_errors("OffsetFetch", 0, "GROUP_AUTHORIZATION_FAILED")
    result = run(*watch, status=Status.FAILED)
    assert len(result.stdout.splitlines()) == 1
    assert "GROUP_AUTHORIZATION_FAILED" in result.stderr
