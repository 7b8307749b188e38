"""Every option of Kafka's own client and of librdkafka as a key of a configuration: taken, without effect, or refused."""

from __future__ import annotations

import ctypes
from importlib.util import find_spec
from pathlib import Path

import pytest

from pykafka.config.configuration import targets_of, why_meant
from pykafka.config.keys import is_ignored, is_shared, of_topics, why_refused
from pykafka.config.names import plain
from tests.java_judge.kafka_java import run_source
from tests.java_judge.schemas import RELEASES

CLIENTS = RELEASES
#: As files for Kafka Connect have them.
PARTS = ("producer", "consumer", "admin")


def is_known(name: str) -> bool:
    key = plain(name)
    return bool(targets_of(key)) or is_ignored(key) or why_refused(key) is not None


@pytest.mark.kafka
@pytest.mark.parametrize("release", CLIENTS)
def test_of_java(release: str) -> None:
    names = [line.split("\t")[0] for line in run_source("ConfigNames.java", release).splitlines()]
    assert len(names) > 110
    assert [name for name in names if not is_known(name)] == []
    parts = [f"{part}.{name}" for name in names if not is_shared(plain(name)) for part in PARTS]
    assert [name for name in parts if not is_known(name) and why_meant(name)] == []


def test_of_librdkafka(tmp_path: Path) -> None:
    names = properties_of_librdkafka(tmp_path / "properties.md")
    everywhere, topics = names[: names.index("Property")], names[names.index("Property") + 1 :]
    assert len(everywhere) > 150
    assert [name for name in [*everywhere, *topics] if not is_known(name)] == []
    assert [name for name in topics if not of_topics(f"topic.{plain(name)}") or not is_known(f"topic.{name}")] == []
    assert [name for name in everywhere if name not in topics and of_topics(f"topic.{plain(name)}")] == []


def library_of_confluent() -> str:
    """Return the path of the shared library in the wheel of confluent-kafka."""
    spec = find_spec("confluent_kafka")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    # Where the wheel tools of Linux and of macOS put bundled libraries.
    folders = (package.parent / "confluent_kafka.libs", package / ".dylibs")
    return min(str(path) for folder in folders for path in folder.glob("librdkafka*"))


def properties_of_librdkafka(path: Path) -> list[str]:
    """Return the names of all properties, with "Property" between those of clients and those of topics.

    :param path: a file for librdkafka to write
    """
    library, standard = ctypes.CDLL(library_of_confluent()), ctypes.CDLL(None)
    standard.fopen.restype = ctypes.c_void_p
    standard.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    standard.fclose.argtypes = [ctypes.c_void_p]
    library.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    file = standard.fopen(str(path).encode(), b"w")
    library.rd_kafka_conf_properties_show(file)
    standard.fclose(file)
    cells = [line.split("|")[0].strip() for line in path.read_text().splitlines() if "|" in line]
    return [cell for cell in cells if cell and not cell.startswith("-")][1:]
