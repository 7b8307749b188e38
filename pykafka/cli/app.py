"""The program: the options of all commands, and the translation of errors to a sentence and an exit status."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pykafka._version import __version__
from pykafka.cli import INTERRUPTED
from pykafka.cli.exit_status import explain, status_of
from pykafka.cli.options import BEHIND, HOSTS, REDACT, ZOOKEEPER, session_of
from pykafka.exceptions import KafkaException, NoBrokersAvailableError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Each command: the module that has it, without "cmd_", and what it does. The help prints these lines, and loads no module.
COMMANDS = {
    "acls": ("acls", "Access control lists: who may do what."),
    "client-metrics": ("client_metrics", "Subscriptions of brokers to the metrics of clients."),
    "cluster": ("cluster", "The brokers of the cluster."),
    "completion": ("completion", "Print a shell completion script."),
    "configs": ("configs", "Settings of topics, brokers, groups and clients' metrics."),
    "consume": ("consume", "Write a topic's messages to the standard output or a file."),
    "consume_topic": ("consume", "Print a topic's messages, or write a file."),
    "create_topic": ("change", "Create a topic."),
    "delete_topic": ("change", "Delete a topic and all its messages."),
    "desc_topic": ("read", "Print a topic's partitions and settings."),
    "doctor": ("doctor", "Diagnose connectivity to a cluster."),
    "elect": ("reassign", "Elections of leaders."),
    "fake": ("fake", "Run a fake cluster for tests, in memory, until Ctrl-C or as long as a command runs."),
    "features": ("cluster", "Features of the cluster, by level."),
    "flight": ("flight", "Print what a client did last: the file of record_flight(), in UTC."),
    "groups": ("groups", "Groups of every type, their members and offsets."),
    "lag": ("lag", "Print the lag of all groups by partition, worst first."),
    "log-dirs": ("cluster", "Directories of brokers, and the replicas in them."),
    "migrate-offsets": ("migrate", "Copy a group's committed offsets from ZooKeeper to Kafka, and read them again."),
    "pipeline": ("pipeline", "Take topics to files, tables or other topics."),
    "print_consumer_lag": ("read", "Print a consumer group's lag in a topic."),
    "print_managed_consumer_groups": ("groups", "Print consumer groups and their members."),
    "print_offsets": ("read", "Print the offset of each partition."),
    "print_topics": ("read", "Print all topics of the cluster."),
    "produce": ("produce", "Write messages to TOPIC, one for each line of FILE or of the standard input."),
    "quorum": ("cluster", "The controllers that agree on the metadata."),
    "quotas": ("quotas", "Quotas of users, client ids and addresses."),
    "reassign": ("reassign", "Reassignments of partitions to other brokers."),
    "reset_offsets": ("change", "Reset a group's committed offsets."),
    "spark-pack": (
        "spark_pack",
        "Make an archive for Spark's executors, whose Python has neither this package nor what it needs.",
    ),
    "tokens": ("tokens", "Delegation tokens."),
    "topics": ("topics", "Topics, their partitions and messages."),
    "transactions": ("transactions", "Transactions of producers."),
    "users": ("users", "Users who log in by SCRAM."),
}


#: The variable by which the scripts of shells ask for completions.
COMPLETION = "_KAFKA_TOOLS_COMPLETE"


class _LazyCommands(MutableMapping[str, click.Command]):
    """The commands by name; the module of one is imported when it is looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module = import_module(f"pykafka.cli.cmd_{COMMANDS[name][0]}")
            for command in module.COMMANDS:
                _add_common(command)
                self._loaded[command.name] = command
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**COMMANDS, **self._loaded})

    def __len__(self) -> int:
        return len({**COMMANDS, **self._loaded})

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS or name in self._loaded


class Tools(click.Group):
    """The group of all commands. An error in one becomes a sentence and a status."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "commands": _LazyCommands()})

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the program; if a shell asks what may follow, load how this one completes words."""
        if COMPLETION in os.environ:
            import_module("pykafka.cli.cmd_completion")
        return super().main(*args, **settings)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of the commands without their modules."""
        limit = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl([(name, _short_help(name, limit)) for name in sorted(COMMANDS)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin so, without the modules of the commands."""
        from click.shell_completion import CompletionItem

        names = [name for name in sorted(COMMANDS) if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=_short_help(name)) for name in names]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except KafkaException as error:
            redact: Callable[[str], str] = ctx.meta.get(REDACT, str)
            click.echo(f"kafka-tools: {redact(explain(error))}", err=True)
            # With --zookeeper, --broker was not used.
            tried = isinstance(error, NoBrokersAvailableError) and ctx.params["zookeeper"] is None
            if tried and ctx.invoked_subcommand != "doctor":
                # The brokers of a pipeline are those of its file.
                asked = "HOST:PORT" if ctx.invoked_subcommand == "pipeline" else ctx.params["host"]
                click.echo(f"`kafka-tools doctor {asked}` looks closer", err=True)
            ctx.exit(status_of(error))


def _short_help(name: str, limit: int = 45) -> str:
    return click.Command(name, help=COMMANDS[name][1]).get_short_help_str(limit)


#: The options that may stand before and behind each command, by parameter.
COMMON: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "host": (
        ("-b", "--broker"),
        {
            "type": HOSTS,
            "default": "localhost:9092",
            "show_default": True,
            "help": "Any brokers of the cluster, separated by commas.",
        },
    ),
    "broker_version": (
        ("-o", "--broker_version"),
        {"help": "Accepted for old scripts; the client detects the version."},
    ),
    "zookeeper": (
        ("--zookeeper",),
        {"type": ZOOKEEPER, "metavar": "HOST:PORT", "help": "Find the brokers through ZooKeeper instead."},
    ),
    "socket_timeout_ms": (
        ("--socket_timeout_ms",),
        {
            "type": click.IntRange(min=1),
            "default": 10_000,
            "show_default": True,
            "help": "Timeout of a connect or a response (ms).",
        },
    ),
    "config": (
        ("--config",),
        {
            "type": click.Path(),
            "metavar": "FILE",
            "envvar": "PYKAFKA_CONFIG",
            "show_envvar": True,
            "help": "Take the cluster, TLS and SASL from a file (.properties, .toml, .json, .ini). Options of the command "
            "line win.",
        },
    ),
    "tls": (("--tls",), {"is_flag": True, "help": "Use TLS; the three options below imply it."}),
    "cafile": (("--cafile",), {"type": click.Path(), "help": "Authorities to trust (PEM); by default the system's."}),
    "certfile": (("--certfile",), {"type": click.Path(), "help": "Certificate to show (PEM)."}),
    "keyfile": (("--keyfile",), {"type": click.Path(), "help": "Its private key (PEM)."}),
    "verbose": (
        ("-v", "--verbose"),
        {"count": True, "help": "Log what the client does to the standard error stream; twice: requests, too."},
    ),
}
EPILOG = (
    "Options of kafka-tools itself, as -b HOST, may stand before or behind the command: kafka-tools --help lists them."
)


# Without a command it shows its help with status 0, as it always did: scripts test in that way that it is installed.
@click.group(
    cls=Tools,
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    params=[click.Option([*flags, name], **settings) for name, (flags, settings) in COMMON.items()],
)
@click.version_option(__version__, prog_name="kafka-tools")
@click.pass_context
def tools(ctx: click.Context, /, **_: Any) -> None:
    """Inspect and change a Kafka cluster, with brokers from 0.8.2 to 4.x.

    The options below may also stand behind the command.

    Exit statuses: 0 success, 1 failure, 2 wrong usage, 3 no broker, or no ZooKeeper, can be reached, 4 no such topic, group or
    user, 5 the broker does not support the operation, 6 lag above the given limit, 130 after Ctrl-C, 143 after SIGTERM.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _add_common(command: click.Command) -> None:
    """Add the common options to a command, except flags that it itself uses; to a noun, to each of its verbs."""
    if isinstance(command, click.Group):
        for verb in command.commands.values():
            _add_common(verb)
        return
    taken = {flag for param in command.params for flag in param.opts}
    for name, (flags, settings) in COMMON.items():
        free = [flag for flag in flags if flag not in taken]
        if not free:  # then it stands before the command only, as --config of one that changes settings
            continue
        kept = {key: value for key, value in settings.items() if key not in _BEFORE}
        behind = click.Option(
            [*free, f"common_{name}"], **kept, hidden=True, expose_value=False, callback=partial(_take_over, name)
        )
        command.params.append(behind)
    command.callback = _with_session(command.callback)
    command.epilog = EPILOG


#: What an option has only before the command.
_BEFORE = {"default", "show_default", "envvar", "show_envvar"}


def _take_over(name: str, ctx: click.Context, param: click.Parameter, value: Any) -> None:
    # The option behind the command comes last, so it wins.
    if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
        root = ctx.find_root()
        root.params[name] = value
        root.meta.setdefault(BEHIND, set()).add(name)


def _with_session(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        ctx = click.get_current_context()
        ctx.obj = session_of(ctx.find_root())
        return callback(*args, **kwargs) if callback is not None else None

    return run
