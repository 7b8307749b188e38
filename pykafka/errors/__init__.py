"""The tree of errors; import them from `pykafka.exceptions`."""
