"""Pipelines: from topics to Parquet or to other topics, declared in one TOML file.

A `Declaration` is the content of the file; a `Pipeline` runs it in a session of Spark.
"""

from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.errors import DeclarationError, PipelineError
from pykafka.spark.pipeline.running import Pipeline, StopRequest

__all__ = ["Declaration", "DeclarationError", "Pipeline", "PipelineError", "StopRequest"]
