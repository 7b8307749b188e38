"""Kafka's own descriptions of its messages, out of its client's jar."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from functools import cache
from typing import Any

from tests.brokers import NEWEST, maven_jar

#: Today's, and the last release that still described the versions which 4.0 dropped.
RELEASES = (NEWEST, "3.9.2")
#: Fields that had another name in older releases.
RENAMED = {("TxnOffsetCommitRequest", "GenerationId"): "GenerationIdOrMemberEpoch"}


@cache
def _text(release: str, name: str) -> str:
    jar = maven_jar(f"org.apache.kafka:kafka-clients:{release}")
    with zipfile.ZipFile(jar) as archive:
        return archive.read(f"common/message/{name}.json").decode()


def describes(release: str, name: str) -> bool:
    """Return whether a release describes a message: some came later.

    :param release: of Kafka
    :param name: of the message
    """
    try:
        return bool(stable_versions(release, name))
    except KeyError:
        return False


def stable_versions(release: str, name: str) -> set[int]:
    """Return the versions of a message that a release describes, without one that it had for early access and that never came.

    :param release: of Kafka
    :param name: of the message
    """
    described = version_range(schema(release, name)["validVersions"], 0x7FFF)
    request = schema(release, re.sub("Response$", "Request", name))
    if release != RELEASES[0] and request.get("latestVersionUnstable"):
        described -= {max(described)} - version_range(schema(RELEASES[0], name)["validVersions"], 0x7FFF)
    return described


def comments(release: str, name: str) -> str:
    """Return what Kafka's description of a message says in comments, as one line.

    :param release: of Kafka
    :param name: of the message
    """
    lines = [line.strip() for line in _text(release, name).splitlines()]
    return " ".join(line.removeprefix("//").strip() for line in lines if line.startswith("//"))


@cache
def schema(release: str, name: str) -> Mapping[str, Any]:
    """Return Kafka's description of a message.

    :param release: of Kafka
    :param name: of the message
    """
    kept = [line for line in _text(release, name).splitlines() if not line.lstrip().startswith("//")]
    found: dict[str, Any] = json.loads("\n".join(kept))
    for field in found["fields"]:
        field["name"] = RENAMED.get((name, field["name"]), field["name"])
    return found


def snake_case(name: str) -> str:
    """Return the Python spelling of a field's name: throttle_time_ms for ThrottleTimeMs."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def version_range(text: str, last: int) -> set[int]:
    """Return the versions of a text such as "3+", up to the last that there is."""
    if text == "none":
        return set()
    if text.endswith("+"):
        return set(range(int(text[:-1]), last + 1))
    low, _, high = text.partition("-")
    return set(range(int(low), min(int(high or low), last) + 1))
