"""Spark's own jars, which ours is compared with: the Kafka connector, for the releases that have one, and Avro."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.brokers import maven_jar

_CLIENT = ("org.apache.kafka:kafka-clients:3.9.2", "org.apache.commons:commons-pool2:2.12.1")
#: The connector and those of its dependencies that Spark lacks, by the release of PySpark as the Makefile installs it. Each is
#: fetched on its own: what the connector's pom names cannot all be had.
CONNECTORS = {
    release: (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{connector}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{tokens}",
        *_CLIENT,
    )
    for release, connector, tokens in (
        ("4.0", "4.0.1", "4.0.0"),
        ("4.1", "4.1.1", "4.1.1"),
        ("4.2", "4.2.0", "4.2.0"),
    )
}

#: The jar of `from_avro`, by the release of PySpark. That of 4.3 cannot be had; most of its classes are in Spark itself.
AVRO = {"4.0": "4.0.1", "4.1": "4.1.1", "4.2": "4.2.0", "4.3": "4.2.0"}


def pyspark_release() -> str:
    """Return the release of the installed PySpark, such as "4.2"; "" where there is none."""
    try:
        return ".".join(version("pyspark").split(".")[:2])
    except PackageNotFoundError:
        return ""


def has_connector() -> bool:
    """Return whether the connector of the installed PySpark can be had."""
    return pyspark_release() in CONNECTORS


def connector_name() -> str:
    """Return the coordinates of the connector of the installed PySpark."""
    return CONNECTORS[pyspark_release()][0] if has_connector() else f"none for PySpark {pyspark_release()}"


def connector_jars() -> list[Path]:
    """Fetch the connector of the installed PySpark, once; return its jars.

    :raises KeyError: there is none for this release
    """
    return [maven_jar(coordinate) for coordinate in CONNECTORS[pyspark_release()]]


def avro_jar() -> Path:
    """Fetch the jar of Spark's functions for Avro, once; return it.

    :raises KeyError: there is none for the installed PySpark
    """
    return maven_jar(f"org.apache.spark:spark-avro_2.13:{AVRO[pyspark_release()]}")
