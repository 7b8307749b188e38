"""Configuration from where people keep it: files of other clients and our own, mappings, and the environment."""

from pykafka.config.configuration import Configuration

__all__ = ["Configuration"]
