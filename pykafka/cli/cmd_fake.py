"""The command fake: a fake cluster in the foreground, for tests of programs in any language."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykafka.cli.options import ParsedType

if TYPE_CHECKING:
    from pykafka.testing.placed import PlacedCluster

#: How long the cluster may take to close (s): then the process ends without that.
_CLOSE_S = 0.5
#: How long the command may take to end after a signal (s): then it is killed.
_COMMAND_S = 10
_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM}
#: As shells use them.
_NOT_FOUND, _NOT_RUNNABLE = 127, 126
#: The variables of a command's environment; the second one is of `KafkaClient.from_env()`.
_BOOTSTRAP, _CONTROL = ("KAFKA_BOOTSTRAP_SERVERS", "PYKAFKA_BOOTSTRAP_SERVERS"), "KAFKA_CONTROL_URL"


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value


_PORT = click.IntRange(0, 65535)


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--brokers", type=click.IntRange(1, 100), default=3, show_default=True, help="How many.")
@click.option(
    "--as-version", metavar="RELEASE", help="The release that they play, such as 2.8.2; by default the newest."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; without any authentication.")
@click.option("--advertise", metavar="HOST", help="Where clients connect, if that is another name than --host.")
@click.option(
    "--port", type=_PORT, default=0, help="Of the first broker; the others have the next ones. By default free ones."
)
@click.option("--topic", "topics", multiple=True, metavar="NAME[:PARTITIONS[:REPLICAS]]", help="Create it; repeatable.")
@click.option(
    "-c",
    "--config",
    "settings",
    multiple=True,
    type=ParsedType("setting", _setting),
    metavar="NAME=VALUE",
    help="A setting of the brokers, such as num.partitions=6; repeatable.",
)
@click.option("--control", type=_PORT, metavar="PORT", help="Serve the controls by HTTP, too; 0: at a free port.")
@click.option("--control-host", default="127.0.0.1", show_default=True, help="Where; without any authentication.")
@click.option(
    "--ready-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the addresses to it as JSON, as soon as the brokers listen. It is removed at the end.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the addresses as JSON.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def fake(ctx: click.Context, /, command: tuple[str, ...], **options: Any) -> None:
    """Run a fake cluster for tests, in memory, until Ctrl-C or as long as a command runs.

    Prints the addresses in one line as soon as the brokers listen. With -- COMMAND [ARGUMENT]... runs that, with
    KAFKA_BOOTSTRAP_SERVERS and KAFKA_CONTROL_URL in its environment, and ends with its status.
    """
    ready_file: Path | None = options["ready_file"]
    with _awaiting_signals() as mask, _served(options) as addresses:
        text = json.dumps(addresses)
        if ready_file is not None:
            part = ready_file.with_name(f"{ready_file.name}.part")
            part.write_text(text + "\n")
            part.replace(ready_file)  # so whoever sees the file can read it
        try:
            if command:
                status = _run(command, addresses, mask)
            else:
                line = " ".join(f"{name}={value}" for name, value in addresses.items())
                click.echo(text if options["as_json"] else line)
                status = 0
                signal.sigwait({signal.SIGINT, signal.SIGTERM})
        finally:
            if ready_file is not None:
                ready_file.unlink(missing_ok=True)
    ctx.exit(status)


@contextmanager
def _awaiting_signals() -> Iterator[set[Any]]:
    """Block the signals that are awaited, before the cluster's threads start: none of them takes one. Yield the mask."""
    before = signal.signal(signal.SIGCHLD, lambda *_: None)  # a signal that is ignored cannot be awaited everywhere
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield mask
    finally:
        signal.alarm(0)
        while late := signal.sigpending() & _SIGNALS:  # the process ends anyway
            signal.sigwait(late)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGCHLD, before or signal.SIG_DFL)


@contextmanager
def _served(options: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Run the cluster and its control port; yield their addresses."""
    from pykafka.handlers import ThreadingHandler
    from pykafka.testing.control_port import ControlPort
    from pykafka.testing.remote import Remote

    handler = ThreadingHandler()
    cluster = _cluster(options)
    remote = Remote(cluster, handler)
    closing = [remote.close]
    try:
        addresses = {"bootstrap": cluster.hosts}
        if options["control"] is not None:
            port = ControlPort(remote, options["control_host"], options["control"], handler)
            closing.insert(0, port.close)
            addresses["control"] = port.url
        yield addresses
    finally:
        workers = [handler.spawn(close, name="pykafka-fake-close") for close in closing]
        for worker in workers:
            worker.join(_CLOSE_S)


def _cluster(options: Mapping[str, Any]) -> PlacedCluster:
    from pykafka.testing.placed import NewTopic, Place, PlacedCluster
    from pykafka.testing.releases import NEWEST

    host, port, count = options["host"], options["port"], options["brokers"]
    if options["advertise"] is None and host == "0.0.0.0":
        raise click.UsageError(f"no client can connect to {host}: --advertise names where they can")
    if port + count - 1 > 65535:
        raise click.UsageError(f"there are no {count} ports from {port} on")
    places = [Place(host, options["advertise"] or host, port and port + number) for number in range(count)]
    try:
        topics = [NewTopic.of(text) for text in options["topics"]]
        return PlacedCluster(places, topics, dict(options["settings"]), options["as_version"] or NEWEST.name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _run(command: tuple[str, ...], addresses: Mapping[str, str], mask: set[Any]) -> int:
    """Run a command with the addresses in its environment; return its exit status."""
    environment = {**os.environ, **dict.fromkeys(_BOOTSTRAP, addresses["bootstrap"])}
    if "control" in addresses:
        environment[_CONTROL] = addresses["control"]
    try:
        pid = os.posix_spawnp(command[0], command, environment, setsigmask=mask, setsigdef=[signal.SIGPIPE])
    except OSError as error:
        click.echo(f"kafka-tools: cannot run {command[0]}: {error.strerror}", err=True)
        return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUNNABLE
    while True:
        number = signal.sigwait(_SIGNALS)
        if number == signal.SIGCHLD:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        elif number == signal.SIGALRM:
            os.kill(pid, signal.SIGKILL)
        else:
            if number == signal.SIGTERM:
                signal.alarm(_COMMAND_S)
            if number == signal.SIGTERM or not os.isatty(0):  # a terminal sends Ctrl-C to the command itself
                os.kill(pid, number)


COMMANDS = (fake,)
