"""docs/comparison.md is what `python tools/comparison.py` makes of the programs, and has a source for the README's rows."""

from __future__ import annotations

import re
import runpy
from importlib.metadata import version

import pytest

from tests.docs.pages import README, ROOT

TOOL = runpy.run_path(str(ROOT / "tools" / "comparison.py"))


def rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table with a column for each client behind a heading."""
    behind = text.partition(f"## {heading}\n")[2]
    table = re.search(r"^\|.*\| aiokafka \|\n\|[-|]+\n((?:\|.*\n)+)", behind, re.MULTILINE)
    assert table is not None, heading
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


def test_the_page_is_up_to_date() -> None:
    """And so are the numbers of lines in it."""
    assert TOOL["PAGE"].read_text() == TOOL["page"](), "run `python tools/comparison.py`"


def test_each_row_of_the_readme_has_its_sources() -> None:
    shown = rows(README.read_text(), "Beside other clients")
    sources = rows(TOOL["PAGE"].read_text(), "Where the README's table comes from")
    assert [row[0] for row in sources] == [row[0] for row in shown]
    assert all(all(row) for row in sources)


@pytest.mark.parametrize("name", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_the_clients_of_the_readme_are_those_of_the_tests(name: str) -> None:
    """The page speaks of this version: if it fails, look at the new one and its documentation again."""
    major, minor = version(name).split(".")[:2]
    assert re.search(rf"{name} {major}\.{minor}\b", README.read_text())
    assert f"{name} {version(name)}" in " ".join(TOOL["PAGE"].read_text().split())


#: What the page says of modules and names: they are there, or not.
NAMES = [
    ("confluent_kafka", "ShareConsumer"),
    ("confluent_kafka.aio", "AIOProducer"),
    ("confluent_kafka.aio", "AIOConsumer"),
    ("confluent_kafka", "Consumer.set_sasl_credentials"),
    ("confluent_kafka", "Producer.init_transactions"),
    ("confluent_kafka.admin", "AdminClient"),
    ("confluent_kafka.schema_registry.rules", ""),
    ("kafka", "KafkaProducer.metrics"),
    ("kafka", "KafkaConsumer.metrics"),
    ("kafka", "KafkaProducer.init_transactions"),
    ("kafka.coordinator.assignors.cooperative_sticky", ""),
    ("kafka.net.sasl.msk", ""),
    ("kafka.cli", "run_cli"),
    ("aiokafka", "AIOKafkaProducer.begin_transaction"),
    ("aiokafka.admin", ""),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of kafka-python
@pytest.mark.parametrize(("module", "path"), NAMES)
def test_what_is_said_of_installed_modules(module: str, path: str) -> None:
    found = __import__(module, fromlist=["x"])
    for name in filter(None, path.split(".")):
        found = getattr(found, name)


def test_wheels_of_confluent_kafka_have_no_kerberos() -> None:
    from confluent_kafka import KafkaException, Producer

    with pytest.raises(KafkaException, match="recompile librdkafka with libsasl2"):
        Producer({"bootstrap.servers": "x:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"})
