"""JSON that is more than a reader expects: mutations of small inputs would hardly come to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

#: How deep values nest: what Python's parser takes and a reader of its result may not, and what the parser refuses.
_DEPTHS = (300, 900, 2000)
_NUMBERS = (b"1e999", b"-Infinity", b"NaN", b"1" + b"0" * 400, b"1" * 3000, b"-0", b"1e-400", b"1e5", b"true", b"null")


def json_traps(*samples: Any, depths: Iterable[int] = _DEPTHS) -> Iterator[bytes]:
    """Yield nested lists and objects, and the samples with strange values in the place of each of theirs.

    :param samples: objects of JSON that a reader takes
    :param depths: how deep lists and objects nest
    """
    for depth in depths:
        yield b"[" * depth + b"]" * depth
        yield b'{"a":' * depth + b"1" + b"}" * depth
    yield from _NUMBERS
    yield b'"\\ud800"'
    for sample in samples:
        for name in sample:
            rest = json.dumps({**sample, name: "TRAP"}).encode()
            for value in (*_NUMBERS, b"[]", b"{}", b'"\\ud800"', b'""', b"[[" * 300 + b"]]" * 300):
                yield rest.replace(b'"TRAP"', value)
