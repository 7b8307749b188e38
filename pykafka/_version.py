"""The version of the package: the one place that says it. setup.cfg reads it here; users ask `pykafka.__version__`."""

__version__ = "3.1.0.dev0"
