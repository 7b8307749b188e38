"""The nouns of kafka-tools and their verbs: what they have in common, what they take, and what they refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from pykafka.admin import AclOperation, ConfigSource, DelegationToken, GroupType
from pykafka.cli import show
from pykafka.cli.app import tools
from pykafka.cli.cmd_reassign import parse_plan, plan_text, spread
from pykafka.cli.data import as_data
from pykafka.cli.exit_status import Status
from pykafka.cli.groups import parse_offsets
from pykafka.cli.secrets import referred
from pykafka.cli.units import duration
from pykafka.common import TopicPartition
from tests.unit.cli.test_commands import NOUNS

NOWHERE = ["-b", "127.0.0.1:1", "--socket_timeout_ms", "500"]
#: What each verb needs besides the options that say where the cluster is. Those that change something do it at once.
WORDS = {
    "topics list": [],
    "topics describe": ["clicks"],
    "topics create": ["clicks"],
    "topics delete": ["clicks", "--yes"],
    "topics alter": ["clicks", "--set", "retention.ms=1"],
    "topics add-partitions": ["clicks", "3", "--yes"],
    "topics delete-records": ["clicks", "LATEST", "--yes"],
    "configs list": [],
    "configs describe": ["topic", "clicks"],
    "configs alter": ["topic", "clicks", "--delete", "retention.ms"],
    "groups list": [],
    "groups describe": ["billing"],
    "groups delete": ["billing", "--yes"],
    "groups offsets": ["billing"],
    "groups delete-offsets": ["billing", "clicks:0", "--yes"],
    "groups reset": ["billing", "--all-topics", "--to-latest", "--yes"],
    "groups remove-members": ["billing", "--all", "--yes"],
    "acls list": [],
    "acls create": ["-r", "topic:clicks", "-P", "User:alice", "-O", "read"],
    "acls delete": ["-r", "topic:clicks", "--yes"],
    "users list": [],
    "users set": ["alice", "--password-from", "${PASSWORD}"],
    "users delete": ["alice", "--yes"],
    "quotas list": [],
    "quotas set": ["--user", "alice", "producer_byte_rate=1"],
    "tokens list": [],
    "tokens create": ["--password-file", "password"],
    "tokens renew": ["id"],
    "tokens expire": ["id", "--yes"],
    "transactions list": [],
    "transactions describe": ["id"],
    "transactions producers": ["clicks"],
    "transactions find-hanging": [],
    "transactions abort": ["clicks:0", "5", "--yes"],
    "reassign list": [],
    "reassign plan": ["clicks"],
    "reassign start": ["plan.json", "--yes"],
    "reassign cancel": ["--all", "--yes"],
    "elect preferred": ["--all"],
    "elect unclean": ["clicks", "--yes"],
    "log-dirs list": [],
    "log-dirs describe": ["clicks"],
    "log-dirs move": ["clicks:0", "1", "/data", "--yes"],
    "quorum describe": [],
    "quorum add-voter": ["4", "00000000-0000-0000-0000-000000000001", "CONTROLLER://127.0.0.1:9093"],
    "quorum remove-voter": ["4", "00000000-0000-0000-0000-000000000001", "--yes"],
    "features describe": [],
    "features update": ["metadata.version=25", "--yes"],
    "client-metrics list": [],
    "client-metrics describe": ["all"],
    "client-metrics set": ["all", "--all-metrics"],
    "client-metrics delete": ["all", "--yes"],
    "cluster describe": [],
    "cluster unregister": ["4", "--yes"],
}
#: Verbs that destroy or move something: they ask before.
ASKING = sorted(verb for verb, words in WORDS.items() if "--yes" in words)
PLAN = '{"version": 1, "partitions": [{"topic": "clicks", "partition": 0, "replicas": [1, 2]}]}'


def verbs() -> Iterator[tuple[str, click.Command]]:
    for noun in NOUNS:
        command = tools.commands[noun]
        assert isinstance(command, click.Group)
        for verb, found in command.commands.items():
            yield f"{noun} {verb}", found


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PASSWORD", "secret of the test")
    (tmp_path / "plan.json").write_text(PLAN)


def test_all_verbs_are_here() -> None:
    assert {name for name, _ in verbs()} == set(WORDS)


@pytest.mark.parametrize("noun", sorted(NOUNS))
def test_a_noun_alone_shows_its_verbs(noun: str) -> None:
    result = CliRunner().invoke(tools, [noun])
    assert result.exit_code == Status.USAGE
    assert all(name.split()[1] in result.output for name in WORDS if name.startswith(f"{noun} "))


@pytest.mark.parametrize("verb", sorted(WORDS))
def test_every_verb_has_help(verb: str) -> None:
    command = dict(verbs())[verb]
    assert all(parameter.help for parameter in command.params if isinstance(parameter, click.Option))
    result = CliRunner().invoke(tools, [*verb.split(), "--help"])
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 110


@pytest.mark.parametrize("verb", sorted(WORDS))
def test_where_the_cluster_is_may_stand_anywhere(verb: str) -> None:
    noun, name = verb.split()
    for place in (
        [*NOWHERE, noun, name, *WORDS[verb]],
        [noun, name, *WORDS[verb], *NOWHERE],
        ["-b", "127.0.0.1:2", noun, name, *NOWHERE, *WORDS[verb]],  # the later one counts
    ):
        result = CliRunner().invoke(tools, place)
        assert result.exit_code == Status.UNREACHABLE, result.output
        assert "127.0.0.1:1" in result.stderr
        assert "127.0.0.1:2" not in result.output


@pytest.mark.parametrize("verb", ASKING)
def test_what_destroys_asks_and_can_be_tried(verb: str) -> None:
    options = {option for parameter in dict(verbs())[verb].params for option in parameter.opts}
    assert {"--yes", "--dry-run"} <= options


#: Those that know their question only when they have asked the cluster.
LATE = {"topics delete-records", "acls delete", "reassign cancel", "transactions abort"}


@pytest.mark.parametrize("verb", [verb for verb in ASKING if verb not in LATE])
def test_nobody_is_asked_without_a_terminal(verb: str) -> None:
    words = [word for word in WORDS[verb] if word != "--yes"]
    result = CliRunner().invoke(tools, [*NOWHERE, *verb.split(), *words])
    assert result.exit_code == Status.USAGE
    assert re.search(r"\? .*Give --yes", result.stderr, re.DOTALL)
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("topics create t -a {} -p 1", "--assignment includes"),
        ('topics create t -a {"0":"1"}', "brokers"),
        ("topics alter t", "nothing to change"),
        ("topics alter t --set retention.ms", "NAME=VALUE"),
        ("topics alter t --set retention.ms=1 --delete retention.ms", "named twice"),
        ("configs alter broker x --set a=b --yes", "no broker id"),
        ("configs alter topic --set a=b", "name the topic"),
        ("configs alter broker 1 --set ssl.key.password=x --yes", "is a secret"),
        ("configs describe planet earth", "planet"),
        ("groups reset g --all-topics", "name one place"),
        ("groups reset g --all-topics --to-latest --to-earliest", "name one place"),
        ("groups reset g --to-latest", "say where"),
        ("groups reset g --all-topics --topic t --to-latest", "say where"),
        ("groups reset g --topic t --from-file plan.json", "leave --topic"),
        ("groups reset g --from-file plan.json", "entry 1"),
        ("groups reset g --topic t --by-duration soon", "1d12h"),
        ("groups reset g --topic t --to-datetime LATEST --yes", "takes a time"),
        ("groups remove-members g", "say whom"),
        ("groups list --state Asleep", "Asleep"),
        ("acls create -r topic:t -O read", "--principal"),
        ("acls create -r topic:t -O read -P alice", "User:alice"),
        ("acls create -r topic -O read -P User:a", "name the resource"),
        ("acls create -r planet:t -O read -P User:a", "types are topic"),
        ("acls create -r topic:t -O fly -P User:a", "fly"),
        ("acls delete", "say which"),
        ("acls delete --all -P User:a", "say which"),
        ("users set alice --password-from secret", "does not belong on the command line"),
        ("users set alice --password-from ${NO_SUCH_VARIABLE}", "NO_SUCH_VARIABLE"),
        ("users set alice --password-from @no-such-file", "no-such-file"),
        ("users set alice", "standard input is empty"),
        ("users set alice -m PLAIN", "PLAIN"),
        ("client-metrics set all", "nothing to set"),
        ("client-metrics set all -m org.apache.kafka. --all-metrics", "either"),
        ("client-metrics set all --match client_id=a --match-all", "either"),
        ("client-metrics set all --match client_name=a", "SELECTOR=PATTERN"),
        ("client-metrics set all --match client_id=a,b", "has a comma"),
        ("client-metrics set all --interval-ms 99", "100<=x<=3600000"),
        ("quotas set producer_byte_rate=1", "say whose"),
        ("quotas set --user a", "nothing to change"),
        ("quotas set --user a --default-user producer_byte_rate=1", "either"),
        ("quotas set --user a producer_byte_rate=fast", "NAME=NUMBER"),
        ("quotas set --user a --ip 127.0.0.1 connection_creation_rate=1", "stands alone"),
        ("reassign plan t --brokers 1,x", "1,2,3"),
        ("reassign plan t --brokers 1,1", "twice"),
        ("reassign cancel", "say which"),
        ("reassign start no-such-file --yes", "No such file"),
        ("elect preferred", "say which"),
        ("features update metadata.version --yes", "FEATURE=LEVEL"),
        ("quorum add-voter 1 00000000-0000-0000-0000-000000000001 host:1", "LISTENER://HOST:PORT"),
        ("quorum add-voter 1 x CONTROLLER://h:1", "UUID"),
    ],
)
def test_wrong_usage(line: str, said: str) -> None:
    result = CliRunner().invoke(tools, [*NOWHERE, *line.split()])
    assert result.exit_code == Status.USAGE, result.output
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_a_secret_is_in_no_output() -> None:
    for line in (
        "users set alice --password-from ${PASSWORD} -vv",
        "configs alter broker 1 --set ssl.key.password=secret -y",
    ):
        result = CliRunner().invoke(tools, [*NOWHERE, *line.split()])
        assert result.exit_code != 0
        assert "secret of" not in result.output
        assert "=secret" not in result.output


def test_secrets(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("from a file\nsecond line\n")
    assert referred("${PASSWORD}") == "secret of the test"
    assert referred(f"@{tmp_path}/file") == "from a file"
    (tmp_path / "empty").touch()
    with pytest.raises(click.UsageError, match="empty"):
        referred(f"@{tmp_path}/empty")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", timedelta(seconds=90)),
        ("1d12h", timedelta(hours=36)),
        ("1.5h", timedelta(minutes=90)),
        ("2w", timedelta(days=14)),
        ("PT1H30M", timedelta(minutes=90)),
        ("P1DT0.5S", timedelta(days=1, milliseconds=500)),
    ],
)
def test_durations(text: str, expected: timedelta) -> None:
    assert duration(text) == expected


@pytest.mark.parametrize("text", ["", "P", "12", "1h1d", "-1h", "PT", "1 h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        duration(text)


def test_offsets_of_a_file() -> None:
    expected = {TopicPartition("a", 0): 5, TopicPartition("b", 1): 0}
    assert parse_offsets("# comment\na,0,5\n\nb, 1, 0\n", "g") == expected
    text = '[{"topic": "a", "partition": 0, "offset": 5}, {"topic": "b", "partition": 1, "after": 0}]'
    assert parse_offsets(text, "g") == expected
    # Of a file of several groups, as Kafka's own tool writes it, the others are left out.
    assert parse_offsets("g,a,0,5\nh,a,0,6\ng,b,1,0\n", "g") == expected
    assert parse_offsets("\ufeffGroup,Topic,Partition,Offset\r\ng,a,0,5\r\ng,b,1,0\r\n", "g") == expected
    assert parse_offsets("topic,partition,offset\na,0,5\nb,1,0\n", "g") == expected
    text = '[{"group": "h", "topic": "a", "partition": 0, "offset": 6}, {"topic": "a", "partition": 0, "offset": 5}]'
    assert parse_offsets(text, "g") == {TopicPartition("a", 0): 5}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no partition"),
        ("a,0", "line 1"),
        ("a,0,5\na,x,5", "line 2"),
        ("a,0,5\na,0,6", "twice"),
        ("h,a,0,5\ni,a,0,5", "no offsets of group g, but of h, i"),
        ("g,a,0,5,x", "line 1"),
        ('{"group": 5, "topic": "a", "partition": 0, "offset": 1}', "entry 1"),
        ("[1]", "entry 1"),
        ('{"topic": "a", "partition": 0, "offset": -1}', "entry 1"),
        ("[", "Expecting"),
        ("[" * 5_000, "nests too deep"),
    ],
)
def test_wrong_offsets_of_a_file(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_offsets(text, "g")


def test_plans() -> None:
    plan = parse_plan(PLAN)
    assert plan == {TopicPartition("clicks", 0): [1, 2]}
    assert parse_plan(plan_text(plan)) == plan


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "entry 1"),
        ("[]", "no partition"),
        ('[{"topic": "t", "partition": 0, "replicas": []}]', "entry 1"),
        ('[{"topic": "t", "partition": "0", "replicas": [1]}]', "entry 1"),
        (f"[{PLAN[PLAN.index('{', 1) : -2]}, {PLAN[PLAN.index('{', 1) : -2]}]", "twice"),
    ],
)
def test_wrong_plans(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_plan(text)


def present(*replicas: tuple[int, ...]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition("t", id_): one for id_, one in enumerate(replicas)}


def test_what_is_even_stays() -> None:
    even = present((1, 2), (2, 3), (3, 1))
    assert spread(even, [1, 2, 3]) == {item: list(one) for item, one in even.items()}


def test_a_broker_that_goes_hands_its_replicas_to_the_others() -> None:
    plan = spread(present((1, 2), (2, 3), (3, 1)), [1, 2])
    assert [sorted(one) for one in plan.values()] == [[1, 2]] * 3


def test_a_new_broker_gets_its_share() -> None:
    plan = spread(present((1, 2), (1, 2), (1, 2), (1, 2), (1, 2), (1, 2)), [1, 2, 3])
    load = [sum(broker in one for one in plan.values()) for broker in (1, 2, 3)]
    leads = [sum(one[0] == broker for one in plan.values()) for broker in (1, 2, 3)]
    assert load == [4, 4, 4]
    assert max(leads) - min(leads) <= 1
    assert all(len(set(one)) == 2 for one in plan.values())


def test_replicas_go_to_different_racks() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}
    plan = spread(present((1,), (2,), (3,), (4,)), [1, 2, 3, 4], 2, racks)
    assert all({racks[one] for one in its} == {"a", "b"} for its in plan.values())


def test_more_replicas_than_brokers() -> None:
    with pytest.raises(ValueError, match="3 replicas"):
        spread(present((1,)), [1, 2], 3)


def test_names_instead_of_numbers() -> None:
    assert as_data({"a": AclOperation.DESCRIBE_CONFIGS, "b": GroupType.SHARE, "c": frozenset({AclOperation.READ})}) == {
        "a": "describe_configs",
        "b": "share",
        "c": ["read"],
    }
    assert show.cell(ConfigSource.STATIC_BROKER) == "static broker"
    assert show.cell(1_234.5) == "1,234.5"
    assert show.cell(1_048_576.0) == "1,048,576"


@pytest.mark.parametrize("held", [None, "the password of another token\n"])
def test_a_token_that_is_not_made_leaves_the_file_as_it_was(tmp_path: Path, held: str | None) -> None:
    file = tmp_path / "password"
    if held is not None:
        file.write_text(held)
    result = CliRunner().invoke(tools, ["tokens", "create", "--password-file", str(file), *NOWHERE])
    assert result.exit_code == Status.UNREACHABLE
    assert (file.read_text() if file.exists() else None) == held


def test_a_token_s_password_replaces_what_the_file_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = DelegationToken("id", b"hmac", "User:a", None, (), 0, 0, 0)
    client = SimpleNamespace(admin=SimpleNamespace(create_delegation_token=lambda **_: made))
    monkeypatch.setattr("pykafka.cli.options.Session.client", lambda _: nullcontext(client))
    file = tmp_path / "password"
    file.write_text("x" * 99)
    assert CliRunner().invoke(tools, ["tokens", "create", "--password-file", str(file), *NOWHERE]).exit_code == 0
    assert file.read_text() == "aG1hYw==\n"
    assert file.stat().st_mode & 0o777 == 0o600
