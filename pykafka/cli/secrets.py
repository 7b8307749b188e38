"""Passwords from where other users of the machine do not see them: a prompt, a file, a variable of the environment."""

from __future__ import annotations

import os
import re
import sys

import click

from pykafka.exceptions import ConfigurationError

_REFERENCE = re.compile(r"\$\{[^{}]+\}")
#: How a secret is written on the command line.
NOTATION = "${VARIABLE} or @FILE"


def is_reference(text: str) -> bool:
    """Return whether a text names where a secret is, and is none itself."""
    return text.startswith("@") or _REFERENCE.fullmatch(text) is not None


def referred(text: str) -> str:
    """Return the secret that a text refers to: "@FILE" for the first line of a file, "${VARIABLE}", as configuration files do.

    :raises click.UsageError: the text is no such reference, or nothing is there
    """
    if not is_reference(text):
        raise click.UsageError(
            f"a secret does not belong on the command line, where every user of this machine can read it; write {NOTATION}"
        )
    from pykafka.config.references import resolved

    reference = f"${{file:{text[1:]}}}" if text.startswith("@") else text
    try:
        lines = resolved(reference, "the command line", os.environ).splitlines()
    except ConfigurationError as error:
        raise click.UsageError(error.text) from None
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
