"""`json_contents`: key, value and headers of a record as JSON has them."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any


def json_contents(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] | None
) -> dict[str, Any]:
    """Return the contents of a record by name: text, or base64 under another name ("key_base64") if it is not UTF-8.

    :param key: of the record
    :param value: of the record
    :param headers: names and values, in their order
    """
    return {
        **_content("key", key),
        **_content("value", value),
        "headers": [{"name": name, **_content("value", content)} for name, content in headers or ()],
    }


def _content(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}
