"""Permissions of files that the session of the tests makes: as Hadoop sets them, without a process for each."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


@pytest.mark.parametrize("bits", [0o640, 0o755, 0o421, 0o000, 0o777])
def test_permissions(spark: SparkSession, tmp_path: Path, bits: int) -> None:
    java = spark._jvm
    context = spark.sparkContext._jsc
    assert java is not None
    assert context is not None
    hadoop = java.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(java.java.net.URI("file:///"), context.hadoopConfiguration())
    assert files.getClass().getName() == "LocalFiles"
    file = tmp_path / "file"
    files.create(hadoop.Path(str(file))).close()
    files.setPermission(hadoop.Path(str(file)), hadoop.permission.FsPermission(bits))
    assert stat.S_IMODE(file.stat().st_mode) == bits


def test_checkpoints_are_made_likewise(spark: SparkSession) -> None:
    java = spark._jvm
    context = spark.sparkContext._jsc
    assert java is not None
    assert context is not None
    local = java.java.net.URI("file:///")
    files = java.org.apache.hadoop.fs.AbstractFileSystem.get(local, context.hadoopConfiguration())
    assert files.getClass().getName() == "LocalFiles$Context"
