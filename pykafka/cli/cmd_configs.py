"""The noun configs: list, describe, alter; of topics, brokers, groups and clients' metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pykafka.admin import ConfigChange, ConfigEntry, ConfigResource, ConfigSource, ConfigType
from pykafka.admin.configs import is_secret
from pykafka.cli import show
from pykafka.cli.options import GroupType, ParsedType, Session, TopicType, session_command
from pykafka.cli.secrets import NOTATION, is_reference, referred
from pykafka.cli.units import setting_value
from pykafka.cli.verbs import Noun, ask, change_command, data_of, print_rows
from pykafka.cli.watching import listing_command

if TYPE_CHECKING:
    from pykafka.client import KafkaClient

#: The kinds of resources, as users write them.
KINDS = {
    "topic": ConfigType.TOPIC,
    "broker": ConfigType.BROKER,
    "loggers": ConfigType.BROKER_LOGGER,
    "group": ConfigType.GROUP,
    "metrics": ConfigType.CLIENT_METRICS,
}
#: Sources of values that were set for this resource.
_OWN = {
    *(ConfigSource.TOPIC, ConfigSource.BROKER, ConfigSource.BROKERS_DEFAULT, ConfigSource.STATIC_BROKER),
    *(ConfigSource.GROUP, ConfigSource.CLIENT_METRICS, ConfigSource.BROKER_LOGGER),
}


def _pair(text: str) -> tuple[str, str]:
    """Return name and value of a setting."""
    name, sign, setting = text.partition("=")
    if not sign or not name.strip():
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name.strip(), setting


_PAIR = ParsedType("name=value", _pair)


class _NameType(click.ParamType[str]):
    """The name of a resource, completed by its kind."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Return topics or groups that begin so."""
        kind = {"topic": TopicType(), "group": GroupType()}.get(ctx.params.get("kind", ""))
        return [] if kind is None else kind.shell_complete(ctx, param, incomplete)


def alter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which settings to change."""
    for option in (
        click.option("--subtract", type=_PAIR, multiple=True, help="Remove VALUE from a list; may be repeated."),
        click.option("--append", type=_PAIR, multiple=True, help="Add VALUE to a list; may be repeated."),
        click.option("--delete", multiple=True, metavar="NAME", help="Back to the default; may be repeated."),
        click.option(
            "--set",
            "settings",
            type=_PAIR,
            multiple=True,
            help=f"Set a value; may be repeated. Durations as 7d, sizes as 1GiB. A secret is given as {NOTATION}.",
        ),
    ):
        command = option(command)
    return command


def changes_of(
    settings: tuple[tuple[str, str], ...],
    delete: tuple[str, ...],
    append: tuple[tuple[str, str], ...],
    subtract: tuple[tuple[str, str], ...],
) -> list[ConfigChange]:
    """Return the changes that the options name.

    :raises click.UsageError: there are none, or two of one setting, or a secret stands on the command line
    """
    found = [
        *(ConfigChange.set(name, _value(name, value)) for name, value in settings),
        *(ConfigChange.delete(name) for name in delete),
        *(ConfigChange.append(name, _value(name, value)) for name, value in append),
        *(ConfigChange.subtract(name, _value(name, value)) for name, value in subtract),
    ]
    if not found:
        raise click.UsageError("nothing to change: give --set NAME=VALUE, --delete NAME, --append or --subtract")
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(f"{name} is named twice; one change of a setting at a time")
    return found


def _value(name: str, value: str) -> str:
    if not is_secret(name):
        return plain_value(name, value)
    if not is_reference(value):
        raise click.UsageError(f"{name} is a secret: write {name}={NOTATION}, as others can read the command line")
    return referred(value)


def plain_value(name: str, value: str) -> str:
    """Return the value of a setting as brokers take it; see `setting_value`.

    :raises click.UsageError: it is no duration, or no size, and the setting is one
    """
    try:
        return setting_value(name, value)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def resource_of(kind: str, name: str | None) -> ConfigResource:
    """Return the resource that the arguments name.

    :raises click.UsageError: the name does not fit the kind
    """
    if kind == "broker" and name in (None, "default"):
        return ConfigResource.broker(None)
    if name is None:
        raise click.UsageError(
            f"name the {kind}: only `broker` without a NAME has a meaning, the defaults of all brokers"
        )
    found = ConfigResource(KINDS[kind], name)
    if kind in ("broker", "loggers") and not name.isdecimal():
        raise click.UsageError(
            f"{name!r} is no broker id; give a number, or `broker` alone for the defaults of all brokers"
        )
    return found


configs = Noun("configs", help="Settings of topics, brokers, groups and clients' metrics.")


@configs.command("list")
@click.argument("kinds", type=click.Choice(list(KINDS)), nargs=-1)
@listing_command
def list_(session: Session, kinds: tuple[str, ...], as_json: bool) -> None:
    """List what has settings. Since Kafka 4.1; subscriptions to clients' metrics since 3.7."""
    with session.client() as client:
        found = client.admin.list_config_resources([KINDS[kind] for kind in kinds])
    print_rows(found, as_json, ("Type", "Name"), lambda one: (_kind(one), one.name or "(default)"))


def _kind(resource: ConfigResource) -> str:
    return next(name for name, kind in KINDS.items() if kind == resource.type)


@configs.command("describe")
@click.argument("kind", type=click.Choice(list(KINDS)), is_eager=True)
@click.argument("name", type=_NameType(), required=False)
@click.option("-a", "--all", "everything", is_flag=True, help="Also settings that have their defaults.")
@click.option("-s", "--setting", "names", multiple=True, help="This setting alone; may be repeated.")
@click.option("--documentation", is_flag=True, help="Also what each setting means (since Kafka 2.6).")
@session_command
def describe(
    session: Session,
    kind: str,
    name: str | None,
    everything: bool,
    names: tuple[str, ...],
    documentation: bool,
    as_json: bool,
) -> None:
    """Print the settings of a resource: of a topic, a broker (by id), and so on.

    `broker` without NAME has the defaults of all brokers; `loggers` are the log levels of a broker.
    """
    resource = resource_of(kind, name)
    with session.client() as client:
        found = client.admin.describe_configs(resource, names=names or None, documentation=documentation)[resource]
    wanted = [one for _, one in sorted(found.items()) if everything or names or one.source in _OWN]
    columns = ("Setting", "Value", "Source?", *(("Meaning",) if documentation else ()))

    def cells(one: ConfigEntry) -> tuple[Any, ...]:
        row = (one.name, shown(one.value, one.sensitive), one.source)
        return (*row, one.documentation) if documentation else row

    print_rows(wanted, as_json, columns, cells)


def shown(value: str | None, sensitive: bool) -> str | None:
    """Return a value as people see it."""
    return "(secret)" if sensitive else value


@configs.command("alter")
@click.argument("kind", type=click.Choice(list(KINDS)), is_eager=True)
@click.argument("name", type=_NameType(), required=False)
@alter_options
@change_command
def alter(
    session: Session,
    kind: str,
    name: str | None,
    settings: tuple[tuple[str, str], ...],
    delete: tuple[str, ...],
    append: tuple[tuple[str, str], ...],
    subtract: tuple[tuple[str, str], ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Change settings of a resource, and leave the others as they are. Since Kafka 2.3."""
    resource = resource_of(kind, name)
    changes = changes_of(settings, delete, append, subtract)
    if resource.type == ConfigType.BROKER:
        ask(f"Change {', '.join(change.name for change in changes)} of {resource}?", yes, dry_run)
    with session.client() as client:
        change_configs(client, resource, changes, dry_run, as_json)


def change_configs(
    client: KafkaClient, resource: ConfigResource, changes: list[ConfigChange], dry_run: bool, as_json: bool
) -> None:
    """Change settings, and print those values before and after."""
    names = [one.name for one in changes]
    before = client.admin.describe_configs(resource, names=names)[resource]
    client.admin.alter_configs({resource: changes}, validate_only=dry_run)
    rows = []
    for change in changes:
        entry = before.get(change.name)
        secret = is_secret(change.name) or (entry is not None and entry.sensitive)
        rows.append(
            {
                "setting": change.name,
                "before": shown(entry.value if entry else None, secret),
                "change": change.operation,
                "value": shown(change.value, secret),
            }
        )
    if as_json:
        show.print_json({**data_of(resource), "dry_run": dry_run, "changes": rows})
        return
    out = show.console()
    out.print(show.table(("Setting", "Before", "Change", "Value"), [tuple(row.values()) for row in rows]))
    if dry_run:
        out.print("Nothing was changed.")


COMMANDS = (configs,)
