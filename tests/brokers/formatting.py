"""Formatted log directories of KRaft nodes, without a JVM for each node.

Kafka's formatter writes two files. `meta.properties` has the ids of cluster and node. A checkpoint, which is in another place
from 4.4 on, has the first records of the metadata: the levels of the release's features, and the users of SCRAM. The checkpoint
is the same for all nodes of a release with the same users. So the formatter runs once, and its checkpoint is kept beside the
jars.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import tempfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.brokers.jars import locked

IDS = "meta.properties"


def template_of(jars: Path, arguments: Sequence[str], make: Callable[[], Path]) -> Path:
    """Return a log directory that lacks the ids alone.

    :param jars: directory of the release's jars; the template is kept beside it
    :param arguments: of the formatter, besides the ids and the settings of a node
    :param make: runs the formatter, and returns the log directory that it wrote; called if no template is kept
    """
    key = hashlib.sha256(repr(tuple(arguments)).encode()).hexdigest()[:8]
    kept = jars.with_name(f"{jars.name}-{key}-formatted")
    if not kept.exists():
        with locked(kept.with_suffix(".lock")):
            if not kept.exists():
                # Filled elsewhere and moved in whole: a template that is there is complete.
                with tempfile.TemporaryDirectory(dir=jars.parent) as scratch:
                    filled = Path(scratch) / kept.name
                    shutil.copytree(make(), filled, ignore=shutil.ignore_patterns(IDS))
                    filled.rename(kept)
    return kept


def write_log_directories(directories: Sequence[Path], template: Path, cluster_id: str, node: int) -> None:
    """Write what the formatter would write for a node.

    :param directories: of the node's logs; the first one has the metadata
    :param template: from `template_of`
    :param cluster_id: from `new_id`, one for all nodes of a cluster
    """
    shutil.copytree(template, directories[0], dirs_exist_ok=True)
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
        ids = {"version": 1, "cluster.id": cluster_id, "node.id": node, "directory.id": new_id()}
        (directory / IDS).write_text("".join(f"{key}={value}\n" for key, value in ids.items()))


def new_id() -> str:
    """Return a random id in Kafka's form: 16 bytes in base 64; as Kafka makes them, none begins with a hyphen."""
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        continue
    return made
