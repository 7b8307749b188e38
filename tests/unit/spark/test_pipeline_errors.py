"""The line of Spark's long errors that says why."""

from __future__ import annotations

import pytest

from pykafka.cli.exit_status import in_options
from pykafka.spark.pipeline.errors import first_and_last

CALLING = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext."
STACK = "\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:1)"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((CALLING, ": org.apache.spark.SparkException: a master", STACK), "org.apache.spark.SparkException: a master"),
        ((CALLING, ": a.E: outer", STACK, "Caused by: b.F: inner", STACK), "b.F: inner"),
    ],
)
def test_an_error_of_java(lines: tuple[str, ...], said: str) -> None:
    assert first_and_last(ValueError("\n".join(lines))) == f"{CALLING}\n  {said}"


def test_an_error_of_java_in_a_function_of_python() -> None:
    lines = (
        "[STREAM_FAILED] the Python Proxy: Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "py4j.protocol.Py4JJavaError: An error occurred while calling o4.executeUpdate.",
        ": java.sql.SQLException: no such column",
        STACK,
    )
    assert first_and_last(ValueError("\n".join(lines))).endswith("\n  java.sql.SQLException: no such column")


def test_an_error_without_a_stack() -> None:
    assert first_and_last(ValueError("a sentence\nof two lines")) == "a sentence"


def test_options_of_a_pipeline_are_not_those_of_the_command_line() -> None:
    assert in_options("it wants sasl=").endswith("sasl.password)")
    told = "it wants sasl=. As options: sasl= is 'kafka.sasl.mechanism'"
    assert in_options(told) == told
