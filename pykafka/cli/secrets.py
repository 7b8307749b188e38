"""Passwords from where other users of the machine do not see them: a prompt, a file, a variable of the environment."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import click

_VARIABLE = re.compile(r"\$\{(\w+)\}")
#: How a secret is written on the command line.
NOTATION = "${VARIABLE} or @FILE"


def is_reference(text: str) -> bool:
    """Return whether a text names where a secret is, and is none itself."""
    return text.startswith("@") or _VARIABLE.fullmatch(text) is not None


def referred(text: str) -> str:
    """Return the secret that a text refers to: "${VARIABLE}", or "@FILE" for the first line of a file.

    :raises click.UsageError: the text is no such reference, or nothing is there
    """
    variable = _VARIABLE.fullmatch(text)
    if variable is not None:
        found = os.environ.get(variable[1])
        if found is None:
            raise click.UsageError(f"there is no variable {variable[1]} in the environment; export it first")
        return _given(found, text)
    if not text.startswith("@"):
        raise click.UsageError(
            f"a secret does not belong on the command line, where every user of this machine can read it; write {NOTATION}"
        )
    try:
        lines = Path(text[1:]).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(
            f"cannot read {text[1:]}: {getattr(error, 'strerror', None) or 'it is no text'}"
        ) from None
    return _given(lines[0] if lines else "", text)


def asked_for(prompt: str) -> str:
    """Return a secret that the user types, twice; or the first line of the standard input if that is no terminal.

    :raises click.UsageError: there is none
    """
    if sys.stdin.isatty():
        return str(click.prompt(prompt, hide_input=True, confirmation_prompt=True, err=True))
    return _given(sys.stdin.readline().rstrip("\r\n"), "the standard input")


def _given(secret: str, where: str) -> str:
    if not secret:
        raise click.UsageError(f"{where} is empty; a password is needed there")
    return secret
