"""The noun quotas: list, set."""

from __future__ import annotations

import math
from typing import Any

import click

from pykafka.admin import QuotaEntity, QuotaName
from pykafka.cli import show
from pykafka.cli.options import ParsedType, Session, session_command
from pykafka.cli.verbs import Noun, dry_run_option, print_rows
from pykafka.cli.watching import listing_command

quotas = Noun("quotas", help="Quotas of users, client ids and addresses. Since Kafka 2.6.")
_PARTS = ("user", "client_id", "ip")


def _entity_options(command: Any) -> Any:
    for name, what in (("ip", "client's address (since Kafka 2.7)"), ("client-id", "client id"), ("user", "user")):
        command = click.option(
            f"--default-{name}", is_flag=True, help=f"All without a quota of their own, by {what.split(' (')[0]}."
        )(command)
        command = click.option(f"--{name}", help=f"The {what}.")(command)
    return command


def _entity(given: dict[str, Any]) -> QuotaEntity:
    parts: dict[str, str | QuotaName] = {}
    for name in _PARTS:
        option = name.replace("_", "-")
        if given[name] is not None and given[f"default_{name}"]:
            raise click.UsageError(f"give either --{option} or --default-{option}")
        if given[name] is not None:
            parts[name] = given[name]
        elif given[f"default_{name}"]:
            parts[name] = QuotaName.DEFAULT
    if "ip" in parts and len(parts) > 1:
        raise click.UsageError("--ip stands alone: quotas of addresses have no user and no client id")
    return QuotaEntity(**parts)


@quotas.command("list")
@_entity_options
@listing_command
def list_(session: Session, /, as_json: bool, **given: Any) -> None:
    """List quotas: all, or those of a user, client id or address."""
    with session.client() as client:
        entity = _entity(given)
        found = client.admin.describe_client_quotas(entity if entity.parts() else None)
    _print(found, as_json)


def _print(found: dict[QuotaEntity, Any], as_json: bool, more: dict[str, Any] | None = None) -> None:
    rows: list[tuple[Any, ...]] = sorted(
        (
            (*(_shown(getattr(entity, name)) for name in _PARTS), quota, value)
            for entity, its in found.items()
            for quota, value in its.items()
        ),
        key=str,
    )
    names = (*_PARTS, "quota", "value")
    if as_json:
        show.print_json([{**dict(zip(names, row, strict=True)), **(more or {})} for row in rows])
    else:
        print_rows(
            rows, False, ("User", "Client id", "IP", "Quota", "Value#"), unchanged=bool(more and more["dry_run"])
        )


def _shown(name: str | QuotaName | None) -> str | None:
    return name.value if isinstance(name, QuotaName) else name


def _quota(text: str) -> tuple[str, float]:
    """Return name and number of a quota."""
    name, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not name or not math.isfinite(value):
        raise ValueError(f"{text!r} is not NAME=NUMBER, as producer_byte_rate=1048576")
    return name, value


@quotas.command("set")
@click.argument("values", metavar="[NAME=NUMBER]...", type=ParsedType("name=number", _quota), nargs=-1)
@_entity_options
@click.option("--delete", multiple=True, metavar="NAME", help="Remove this quota; may be repeated.")
@dry_run_option
@session_command
def set_(
    session: Session,
    /,
    values: tuple[tuple[str, float], ...],
    delete: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Set and remove quotas of a user, client id or address, and print what it has then.

    NAME is producer_byte_rate, consumer_byte_rate (bytes/s), request_percentage, controller_mutation_rate, or, of an
    address, connection_creation_rate.
    """
    entity = _entity(given)
    if not entity.parts():
        raise click.UsageError("say whose: --user, --client-id, --ip, or --default-user and the like")
    changes: dict[str, float | None] = {**dict(values), **dict.fromkeys(delete)}
    if len(changes) < len(values) + len(delete):
        raise click.UsageError("a quota is named twice")
    if not changes:
        raise click.UsageError("nothing to change: give NAME=NUMBER, or --delete NAME")
    with session.client() as client:
        # Before the change: brokers learn of one a little later.
        before = client.admin.describe_client_quotas(entity, strict=True).get(entity, {})
        client.admin.alter_client_quotas({entity: changes}, validate_only=dry_run)
    after = {name: value for name, value in {**before, **changes}.items() if value is not None}
    _print({entity: after}, as_json, {"dry_run": dry_run})


COMMANDS = (quotas,)
