"""The noun tokens: delegation tokens."""

from __future__ import annotations

import base64
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from pykafka.cli import show
from pykafka.cli.cmd_groups import DURATION
from pykafka.cli.data import time_text
from pykafka.cli.options import Session, session_command
from pykafka.cli.verbs import Noun, ask, change_command, print_rows
from pykafka.cli.watching import listing_command
from pykafka.exceptions import DelegationTokenNotFound

if TYPE_CHECKING:
    from pykafka.admin import DelegationToken
    from pykafka.client import KafkaClient

tokens = Noun("tokens", help="Delegation tokens. The client must log in, and not by a token. Since Kafka 1.1.")
_COLUMNS = ("Token", "Owner", "Requester?", "Renewers?", "Issued?", "Expires", "Ends?")


def _fields(token: DelegationToken) -> dict[str, Any]:
    """Return all but the HMAC, which is a password."""
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued": time_text(token.issued_ms),
        "expires": time_text(token.expires_ms),
        "ends": time_text(token.max_ms),
    }


def _print(listed: list[DelegationToken], as_json: bool, unchanged: bool = False) -> None:
    print_rows([_fields(one) for one in listed], as_json, _COLUMNS, lambda row: tuple(row.values()), unchanged)


@tokens.command("list")
@click.option("--owner", "owners", multiple=True, help="As User:alice; may be repeated.")
@listing_command
def list_(session: Session, owners: tuple[str, ...], as_json: bool) -> None:
    """List the tokens that this user may see, without their passwords."""
    with session.client() as client:
        found = client.admin.describe_delegation_tokens(owners or None)
    _print(found, as_json)


@tokens.command("create")
@click.option("--owner", help="As User:alice; by default this user (another one since Kafka 3.3).")
@click.option("--renewer", "renewers", multiple=True, help="Who may renew it besides its owner; may be repeated.")
@click.option(
    "--lifetime", type=DURATION, metavar="7d", help="When it ends in any case; by default the brokers' limit."
)
@click.option(
    "--password-file",
    required=True,
    type=click.Path(dir_okay=False),
    help="Where to write its password, for this user's eyes alone. The token's id is the user name.",
)
@session_command
def create(
    session: Session,
    owner: str | None,
    renewers: tuple[str, ...],
    lifetime: timedelta | None,
    password_file: str,
    as_json: bool,
) -> None:
    """Create a token. Its id and password log in by SCRAM, as its owner."""
    # First, so that no token exists whose password went nowhere.
    was_there = os.path.lexists(password_file)
    with open(password_file, "w", opener=_private) as out:
        try:
            with session.client() as client:
                made = client.admin.create_delegation_token(
                    owner=owner, renewers=renewers, max_lifetime_ms=_ms(lifetime)
                )
        except BaseException:
            if not was_there:
                os.unlink(password_file)
            raise
        out.write(base64.b64encode(made.hmac).decode() + "\n")
        if was_there and os.path.isfile(password_file):
            out.truncate()
    _print([made], as_json)


def _private(path: str, flags: int) -> int:
    # Not emptied yet: it may hold the password of another token, which stays if there is no new one.
    descriptor = os.open(path, flags & ~os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)  # it may have been there
    return descriptor


@tokens.command("renew")
@click.argument("token_id")
@click.option("--for", "period", type=DURATION, metavar="1d", help="From now on; by default as the brokers have it.")
@session_command
def renew(session: Session, token_id: str, period: timedelta | None, as_json: bool) -> None:
    """Put off the end of a token."""
    with session.client() as client:
        end = client.admin.renew_delegation_token(_token(client, token_id), _ms(period))
    _print_end(token_id, end, as_json)


@tokens.command("expire")
@click.argument("token_id")
@click.option("--after", "period", type=DURATION, metavar="1h", help="From now on; by default at once.")
@change_command
def expire(session: Session, token_id: str, period: timedelta | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Bring a token's end forward: logins by it fail from then on."""
    ask(f"Expire token {token_id}?", yes, dry_run)
    with session.client() as client:
        token = _token(client, token_id)
        if dry_run:
            _print([token], as_json, unchanged=True)
            return
        end = client.admin.expire_delegation_token(token, _ms(period))
    _print_end(token_id, end, as_json)


def _token(client: KafkaClient, token_id: str) -> DelegationToken:
    for token in client.admin.describe_delegation_tokens():
        if token.token_id == token_id:
            return token
    raise DelegationTokenNotFound(f"this user sees no token {token_id}; `kafka-tools tokens list` has those it sees")


def _ms(period: timedelta | None) -> int | None:
    return None if period is None else period // timedelta(milliseconds=1)


def _print_end(token_id: str, end: int, as_json: bool) -> None:
    if as_json:
        show.print_json({"token_id": token_id, "expires": time_text(end)})
    else:
        click.echo(f"Token {token_id} expires {time_text(end)}.")


COMMANDS = (tokens,)
