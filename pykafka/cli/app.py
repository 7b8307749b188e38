"""The program: the options of all commands, and the translation of errors to a sentence and an exit status."""

from __future__ import annotations

import logging
from typing import Any

import click

import pykafka
from pykafka.cli import (
    INTERRUPTED,
    cmd_change,
    cmd_completion,
    cmd_consume,
    cmd_doctor,
    cmd_groups,
    cmd_lag,
    cmd_pipeline,
    cmd_read,
)
from pykafka.cli.options import HostsType, Session, ZooKeeperType
from pykafka.cli.statuses import explain, status_of
from pykafka.exceptions import KafkaException, NoBrokersAvailableError
from pykafka.security import SslConfig


class Tools(click.Group):
    """The group of all commands. An error in one becomes a sentence and a status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except KafkaException as error:
            click.echo(f"kafka-tools: {explain(error)}", err=True)
            # With --zookeeper, --broker was not used.
            tried = isinstance(error, NoBrokersAvailableError) and ctx.params["zookeeper"] is None
            if tried and ctx.invoked_subcommand != "doctor":
                click.echo(f"`kafka-tools doctor {ctx.params['host']}` looks closer", err=True)
            ctx.exit(status_of(error))


# Without a command it shows its help with status 0, as it always did: scripts test in that way that it is installed.
@click.group(
    cls=Tools,
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "-b",
    "--broker",
    "host",
    type=HostsType(),
    default="localhost:9092",
    show_default=True,
    help="Any brokers of the cluster, separated by commas.",
)
@click.option("-o", "--broker_version", default=None, help="Accepted for old scripts; the client detects the version.")
@click.option(
    "--zookeeper",
    type=ZooKeeperType(),
    default=None,
    metavar="HOST:PORT",
    help="Find the brokers through ZooKeeper instead.",
)
@click.option(
    "--socket_timeout_ms",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Timeout of a connect or a response (ms).",
)
@click.option("--tls", is_flag=True, help="Use TLS; the three options below imply it.")
@click.option("--cafile", type=click.Path(), help="Authorities to trust (PEM); by default the system's.")
@click.option("--certfile", type=click.Path(), help="Certificate to show (PEM).")
@click.option("--keyfile", type=click.Path(), help="Its private key (PEM).")
@click.option("-v", "--verbose", is_flag=True, help="Log what the client does to the standard error stream.")
@click.version_option(pykafka.__version__, prog_name="kafka-tools")
@click.pass_context
def tools(
    ctx: click.Context,
    host: str,
    broker_version: str | None,
    zookeeper: str | None,
    socket_timeout_ms: int,
    tls: bool,
    cafile: str | None,
    certfile: str | None,
    keyfile: str | None,
    verbose: bool,
) -> None:
    """Inspect and change a Kafka cluster, with brokers from 0.8.2 to 4.x.

    Exit statuses: 0 success, 1 failure, 2 wrong usage, 3 no broker can be reached, 4 no such topic or group, 5 the
    broker does not support the operation, 6 lag above the given limit, 130 after Ctrl-C, 143 after SIGTERM.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        return
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    wants_tls = tls or cafile or certfile or keyfile
    if keyfile and not certfile:
        raise click.UsageError("--keyfile needs --certfile: the certificate of the key")
    config = SslConfig(cafile, certfile, keyfile) if wants_tls else None
    ctx.obj = Session(host, zookeeper, socket_timeout_ms, config)


for _module in (cmd_change, cmd_completion, cmd_consume, cmd_doctor, cmd_groups, cmd_lag, cmd_pipeline, cmd_read):
    for _command in _module.COMMANDS:
        tools.add_command(_command)
