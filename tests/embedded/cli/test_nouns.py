"""The nouns of kafka-tools on the embedded cluster, which lacks most of their APIs: each is refused by name and release."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from pykafka.embedded import EmbeddedCluster
from pykafka.testing.names import api_keys
from tests.unit.cli.test_nouns import PLAN, WORDS

#: Verbs that need no more than metadata and the ends of partitions, which every broker tells.
METADATA = {"topics list", "topics describe", "reassign plan", "cluster describe"}
#: A verb that finds nothing to delete before it needs more.
NOTHING_THERE = {"topics delete-records"}
#: The APIs of a broker that has no more.
OF_OLD = {
    *("Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "OffsetCommit", "OffsetFetch", "FindCoordinator"),
    *("JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup"),
}


@pytest.mark.parametrize("verb", sorted(set(WORDS) - METADATA - NOTHING_THERE))
def test_what_a_broker_lacks_is_refused_by_name(
    embedded: EmbeddedCluster, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PASSWORD", "secret of the test")
    (tmp_path / "plan.json").write_text(PLAN)
    embedded.create_topic("clicks", 2)
    for api in set(api_keys()) - OF_OLD:
        embedded.set_api_versions(api, -1, -1)
    embedded.set_api_versions("ApiVersions", 0, 2)  # without features
    result = CliRunner().invoke(tools, ["-b", embedded.hosts, *verb.split(), *WORDS[verb]])
    assert result.exit_code == Status.UNSUPPORTED, result.output
    assert "Kafka" in result.stderr
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("verb", sorted(METADATA | NOTHING_THERE))
def test_what_every_broker_has(embedded: EmbeddedCluster, verb: str) -> None:
    embedded.create_topic("clicks", 2)
    result = CliRunner().invoke(tools, ["-b", embedded.hosts, *verb.split(), *WORDS[verb]])
    assert result.exit_code == Status.OK, result.output
    assert result.stdout


def completed(*words: str) -> list[str]:
    """Return what a shell offers for the last of these words."""
    shell = ShellComplete(tools, {}, "kafka-tools", "_KAFKA_TOOLS_COMPLETE")
    return [one.value for one in shell.get_completions(list(words[:-1]), words[-1])]


def test_the_shell_completes_names_of_topics(embedded: EmbeddedCluster) -> None:
    for name in ("clicks", "clips", "views"):
        embedded.create_topic(name, 1)
    for words in (
        ("-b", embedded.hosts, "topics", "describe", "cl"),
        ("topics", "describe", "-b", embedded.hosts, "views", "cl"),
        ("-b", embedded.hosts, "consume", "cl"),
        ("-b", embedded.hosts, "configs", "describe", "topic", "cl"),
        ("-b", embedded.hosts, "groups", "reset", "billing", "--topic", "cl"),
    ):
        assert completed(*words) == ["clicks", "clips"], words
    assert completed("-b", "127.0.0.1:1", "topics", "describe", "cl") == []
    assert completed("-b", embedded.hosts, "groups", "describe", "b") == []  # this broker lists none


def test_the_shell_completes_verbs_and_types() -> None:
    assert completed("topics", "de") == ["delete", "delete-records", "describe"]
    assert "topic" in completed("acls", "create", "--resource", "to")
