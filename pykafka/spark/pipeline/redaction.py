"""The secrets of a declaration, and texts without them: Spark and drivers of databases quote options in their errors."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pykafka.config.files import read_file
from pykafka.config.references import brought
from pykafka.exceptions import ConfigurationError

NOT_SHOWN = "[not shown]"
#: Names of keys whose values are secrets, also if the file itself has them; and what such keys end with if they are not.
_SECRET = re.compile(
    r"passw|secret|token|credential|private.key|keystore.key|key.pem|access.?key|account.?key|jaas|^proxy$",
    re.IGNORECASE,
)
_PUBLIC = re.compile(r"(url|uri|provider|path|file|location|class|type)$", re.IGNORECASE)
#: Secrets within values: name=value, the password of a URL, and that of Oracle's URLs.
_PAIR = re.compile(
    r"""(?:passw|secret|token(?!auth)|credential)\w*\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s"';&,{}]+))""",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"://[^/\s:@]*:([^/\s@]+)@|^jdbc:[\w:]+:[^/@\s]+/([^/@\s]+)@")
#: Keys whose texts are SQL, in which `token = id` is a condition.
_SQL = frozenset({"sql", "schema", "delete_where"})
#: Shorter secrets are redacted if they are words of their own; a shorter line of one with several lines stays.
_LEAST, _LINE = 4, 8


def secrets_of(data: Mapping[str, Any], environment: Mapping[str, str]) -> frozenset[str]:
    """Return what the references in a declaration and in the files of its `config` bring, and the passwords in them.

    :param data: as TOML has it
    :param environment: variables by name
    """
    found = {one.strip() for one in _found("", data, environment)}
    lines = {line.strip() for one in found for line in one.splitlines()}
    return frozenset(one for one in found | {line for line in lines if len(line) >= _LINE} if one)


def redacted(text: str, secrets: Collection[str]) -> str:
    """Return a text without some secrets, nor with their forms in quotes."""
    forms = {form for secret in secrets for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1])}
    if not forms:
        return text
    patterns = (
        re.escape(one) if len(one) >= _LEAST else rf"(?<!\w){re.escape(one)}(?!\w)"
        for one in sorted(forms, key=len, reverse=True)
    )
    return re.sub("|".join(patterns), NOT_SHOWN, text)


def without_login(url: str) -> str:
    """Return a URL, or a path, without the user and password in it."""
    return re.sub(r"(?<=://)[^/\s]*@", "", url)


def _found(key: str, value: Any, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets of a part of the file.

    :param key: its name
    :param value: as TOML has it
    """
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _found(name, inner, environment)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _found(key, inner, environment)
    elif isinstance(value, str):
        yield from _of_text(key, value, environment)
        if key == "config":
            with suppress(ConfigurationError):  # the check of the declaration reports it
                yield from _found("", read_file(Path(value.strip())), environment)
    elif isinstance(value, int) and not isinstance(value, bool) and re.search("passw|secret", key, re.IGNORECASE):
        yield str(value)


def _of_text(key: str, value: str, environment: Mapping[str, str]) -> Iterator[str]:
    is_secret = _SECRET.search(key) is not None and _PUBLIC.search(key) is None
    # What another key's reference brings is redacted as a precaution, unless it is as short as a number of cores.
    yield from (one for one in brought(value, environment) if is_secret or len(one.strip()) >= _LEAST)
    if is_secret and "${" not in value:
        yield value
    if key not in _SQL:
        for found in (*_PAIR.finditer(value), *_LOGIN.finditer(value)):
            yield from (group for group in found.groups() if group and "${" not in group)
