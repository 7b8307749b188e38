"""The noun users: those who log in by SCRAM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pykafka.admin import Results, ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from pykafka.cli import show
from pykafka.cli.options import Session, session_command
from pykafka.cli.secrets import NOTATION, asked_for, referred
from pykafka.cli.verbs import Noun, ask, change_command, dry_run_option, fail, print_rows, report
from pykafka.cli.watching import listing_command
from pykafka.exceptions import KafkaException, ResourceNotFound

if TYPE_CHECKING:
    from pykafka.client import KafkaClient

MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
Change = UserScramCredentialUpsertion | UserScramCredentialDeletion
_NAMES = {kind: name for name, kind in MECHANISMS.items()}

users = Noun("users", help="Users who log in by SCRAM. Since Kafka 2.7.")
_mechanism = click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    type=click.Choice(list(MECHANISMS), case_sensitive=False),
    multiple=True,
    help="May be repeated.  [default: SCRAM-SHA-512]",
)


@users.command("list")
@click.argument("names", metavar="[USER]...", nargs=-1)
@listing_command
def list_(session: Session, names: tuple[str, ...], as_json: bool) -> None:
    """List users with their mechanisms: all, or these. Brokers never return passwords."""
    with session.client() as client:
        found = client.admin.describe_user_scram_credentials(names or None, raise_errors=False)
    rows = [
        {"user": user, "mechanism": _NAMES.get(one.mechanism), "iterations": one.iterations}
        for user, its in sorted(found.items())
        for one in its
    ]
    print_rows(rows, as_json, ("User", "Mechanism", "Iterations#"), lambda row: tuple(row.values()))
    fail(list(found.errors.values()))


@users.command("set")
@click.argument("user")
@_mechanism
@click.option(
    "-i", "--iterations", type=click.IntRange(4096, 16384), default=4096, show_default=True, help="Of the hash."
)
@click.option(
    "--password-from",
    metavar="FROM",
    help=f"Where the password is: {NOTATION}. By default it is asked for; without a terminal, the first line of the standard "
    "input.",
)
@dry_run_option
@session_command
def set_(
    session: Session,
    user: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_from: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make a user, or set its password. The password leaves this machine only as a salted hash."""
    names = [name.upper() for name in dict.fromkeys(mechanisms or ("SCRAM-SHA-512",))]
    password = referred(password_from) if password_from is not None else asked_for(f"Password of {user}")
    if dry_run:
        _print_dry_run(as_json, user, names, "set")
        return
    with session.client() as client:
        changes = [UserScramCredentialUpsertion(user, MECHANISMS[name], password, iterations) for name in names]
        _alter(client, user, changes, as_json, "Set")


@users.command("delete")
@click.argument("user")
@_mechanism
@change_command
def delete(session: Session, user: str, mechanisms: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete credentials of a user: those of a mechanism, or all."""
    ask(f"Delete the credentials of user {user}?", yes, dry_run)
    with session.client() as client:
        there = [_NAMES[one.mechanism] for one in client.admin.describe_user_scram_credentials(user)[user]]
        names = [name.upper() for name in dict.fromkeys(mechanisms)] or sorted(there)
        if dry_run:
            missing = [name for name in names if name not in there]
            if missing:
                raise ResourceNotFound(f"user {user} has no credential for {' and '.join(missing)}")
            _print_dry_run(as_json, user, names, "delete")
            return
        _alter(
            client, user, [UserScramCredentialDeletion(user, MECHANISMS[name]) for name in names], as_json, "Deleted"
        )


def _alter(client: KafkaClient, user: str, changes: Sequence[Change], as_json: bool, done: str) -> None:
    """Make changes one by one: a broker takes one change of a user at a time."""
    found: dict[str, KafkaException | None] = {}
    for change in changes:
        results = client.admin.alter_user_scram_credentials(change, raise_errors=False)
        found[_NAMES[change.mechanism]] = results.errors.get(user)
    report(
        Results(found),
        as_json,
        "mechanism",
        lambda name, _: f"{done} {name} of user {user}.",
        lambda *_: {"user": user},
    )


def _print_dry_run(as_json: bool, user: str, names: list[str], verb: str) -> None:
    if as_json:
        show.print_json([{"user": user, "mechanisms": names, "dry_run": True}])
    else:
        click.echo(f"Would {verb} {' and '.join(names)} of user {user}.\nNothing was changed.")


COMMANDS = (users,)
