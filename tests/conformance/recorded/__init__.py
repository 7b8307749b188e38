"""Recorded answers of real brokers, a file for each release."""

from __future__ import annotations

import json
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.conformance.programs import NEED_ACLS

_HERE = Path(__file__).parent

#: What real brokers are started with: the same results in less time.
_QUICK: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}
#: The messages are of 2020; Kafka 0.8 does not know this setting, and has no reason to look within the time.
_KEEPS: dict[str, object] = {"log.retention.ms": -1}

Transcript = list[list[Any]]


#: What has ACLs, by the first release that has it: what no ACL is about is allowed.
_AUTHORIZERS = {
    (4,): "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    (2, 4): "kafka.security.authorizer.AclAuthorizer",
    (0, 11): "kafka.security.auth.SimpleAclAuthorizer",
}


def needs_acls(program: str) -> bool:
    """Return whether a program needs a broker with ACLs.

    Others need one without: with ACLs, Kafka 4.3.1 and 4.4.0 answer an acknowledgement of a topic id that they do not know by
    UNKNOWN_SERVER_ERROR, since they have no name to look up.
    """
    return program in {one.__name__ for one in NEED_ACLS}


def broker_settings(release: str, acls: bool) -> dict[str, object]:
    """Return the settings of a real broker of a release.

    :param acls: whether it has ACLs; brokers before 0.11 never do
    """
    if release.startswith("0.8"):
        return _QUICK
    numbers = tuple(map(int, release.split(".")))
    authorizer = next((name for since, name in _AUTHORIZERS.items() if acls and numbers >= since), None)
    more = {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": "true"} if authorizer else {}
    return _QUICK | _KEEPS | more


def read(release: str) -> dict[str, Transcript]:
    """Return the transcripts of a release, by program; none if it was not recorded."""
    path = _HERE / f"{release}.json"
    found: dict[str, Transcript] = json.loads(path.read_text()) if path.exists() else {}
    return found


def write(release: str, transcripts: dict[str, Transcript]) -> None:
    """Keep the transcripts of a release: a line for each answer, so that changes can be read."""
    programs = []
    for name, lines in sorted(transcripts.items()):
        rows = ",\n".join(json.dumps(line) for line in lines)
        programs.append(f"{json.dumps(name)}: [\n{rows}\n]")
    (_HERE / f"{release}.json").write_text("{\n" + ",\n".join(programs) + "\n}\n")


def differences(expected: Transcript, found: Transcript) -> list[dict[str, Any]]:
    """Return where two transcripts of a program differ."""
    told = json.loads(json.dumps(found))
    return [{"expected": one, "found": other} for one, other in zip_longest(expected, told) if one != other]
