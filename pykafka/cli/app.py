"""The program: the options of all commands, and the translation of errors to a sentence and an exit status."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import click
from click.core import ParameterSource

import pykafka
from pykafka.cli import INTERRUPTED
from pykafka.cli.exit_status import explain, status_of
from pykafka.cli.options import BEHIND, HOSTS, REDACT, ZOOKEEPER, session_of
from pykafka.exceptions import KafkaException, NoBrokersAvailableError

#: The modules of this package with commands, without "cmd_".
COMMAND_MODULES = (
    *(
        "acls",
        "change",
        "client_metrics",
        "cluster",
        "completion",
        "configs",
        "consume",
        "doctor",
        "flight",
        "groups",
        "migrate",
    ),
    *("pipeline", "produce", "quotas", "read", "reassign", "spark_pack", "tokens", "topics", "transactions", "users"),
)


class Tools(click.Group):
    """The group of all commands. An error in one becomes a sentence and a status."""

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
@click.version_option(pykafka.__version__, prog_name="kafka-tools")
@click.pass_context
def tools(ctx: click.Context, /, **_: Any) -> None:
    """Inspect and change a Kafka cluster, with brokers from 0.8.2 to 4.x.

    The options below may also stand behind the command.

    Exit statuses: 0 success, 1 failure, 2 wrong usage, 3 no broker, or no ZooKeeper, can be reached, 4 no such topic, group or
    user, 5 the broker does not support the operation, 6 lag above the given limit, 130 after Ctrl-C, 143 after SIGTERM.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _add(command: click.Command, group: click.Group) -> None:
    """Add a command with the common options, except flags that the command itself uses; so each verb of a noun."""
    group.add_command(command)
    if isinstance(command, click.Group):
        for verb in list(command.commands.values()):
            _add(verb, command)
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


for _module in COMMAND_MODULES:
    for _command in import_module(f"pykafka.cli.cmd_{_module}").COMMANDS:
        _add(_command, tools)
