"""Jars, by Maven coordinates, and settings of a session for tables of Delta Lake and Iceberg."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.errors import DeclarationError
from pykafka.spark.pipeline.model import TITLES, TableSink
from pykafka.spark.pipeline.tables import Problem

_PACKAGES, _EXCLUDES, _EXTENSIONS = "spark.jars.packages", "spark.jars.excludes", "spark.sql.extensions"
#: What Delta's jars depend on and Spark has itself: another release beside it could contradict that.
_OF_SPARK = (
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "commons-pool:commons-pool",
    "io.airlift:aircompressor",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "org.apache.parquet:parquet-column",
    "org.apache.parquet:parquet-common",
    "org.apache.parquet:parquet-encoding",
    "org.apache.parquet:parquet-format-structures",
    "org.apache.parquet:parquet-hadoop",
    "org.apache.parquet:parquet-jackson",
    "org.roaringbitmap:RoaringBitmap",
    "org.scala-lang:scala-library",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
#: Settings by which a user brings jars.
_JARS = (_PACKAGES, "spark.jars", "spark.driver.extraClassPath")


@dataclass(frozen=True)
class Lake:
    """A format of tables.

    :param artifact: the beginning of its jar's name
    :param packages: Maven coordinates by the release of PySpark that they are made for
    :param extension: the class that adds its SQL
    :param catalog: the class of its catalogs
    :param excludes: what the packages depend on and Spark has
    """

    artifact: str
    packages: Mapping[str, str]
    extension: str
    catalog: str
    excludes: tuple[str, ...] = ()


LAKES = {
    "delta": Lake(
        "delta-spark",
        {
            "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
            "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
            # Made for this one, and not for later ones of its line.
            "4.2.0": "io.delta:delta-spark_4.2_2.13:4.4.0",
        },
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        _OF_SPARK,
    ),
    "iceberg": Lake(
        "iceberg-spark-runtime",
        {
            "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
            "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
        },
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "org.apache.iceberg.spark.SparkCatalog",
    ),
}


def settings(declaration: Declaration, release: str) -> dict[str, str]:
    """Return the declaration's settings of Spark, with those that its tables need.

    :param release: of PySpark
    :raises DeclarationError: a format is not made for this release
    """
    found = dict(declaration.config)
    packages: list[str] = []
    excludes: list[str] = []
    extensions: list[str] = []
    problems: list[Problem] = []
    for output in declaration.outputs:
        sink = output.sink
        if not isinstance(sink, TableSink):
            continue
        lake = LAKES[sink.format]
        if not any(lake.artifact in declaration.config.get(setting, "") for setting in _JARS):
            package = _package(lake, release)
            if package is None:
                problems.append(Problem(f"{output.place} format", _why(sink.format, lake, release)))
                continue
            packages.append(package)
            excludes += lake.excludes
        extensions.append(lake.extension)
        for setting, text in _catalog(sink, lake).items():
            if found.setdefault(setting, text) != text and setting not in declaration.config:
                problems.append(
                    Problem(f"{output.place} warehouse", "contradicts that of another sink in the same catalog")
                )
    if problems:
        raise DeclarationError(declaration.name, problems)
    for setting, wanted in ((_PACKAGES, packages), (_EXCLUDES, excludes), (_EXTENSIONS, extensions)):
        already = [part for part in declaration.config.get(setting, "").split(",") if part]
        joined = ",".join(dict.fromkeys([*already, *wanted]))
        if joined:
            found[setting] = joined
    return found


def _package(lake: Lake, release: str) -> str | None:
    return next((text for made, text in lake.packages.items() if f"{release}.".startswith(f"{made}.")), None)


def _why(kind: str, lake: Lake, release: str) -> str:
    made = ", ".join(lake.packages)
    return (
        f"{kind!r} needs jars that are made for one release of Spark: {TITLES[kind]} has them for {made}, and this is "
        f"PySpark {release}; install one of those, or name jars of your own in [spark.config] {_PACKAGES!r}"
    )


def _catalog(sink: TableSink, lake: Lake) -> dict[str, str]:
    """Return the settings of the catalog of a table."""
    if sink.format == "delta":
        return {"spark.sql.catalog.spark_catalog": lake.catalog}
    if not sink.warehouse:
        return {}
    name = f"spark.sql.catalog.{sink.table.partition('.')[0]}"
    return {name: lake.catalog, f"{name}.type": "hadoop", f"{name}.warehouse": sink.warehouse}
