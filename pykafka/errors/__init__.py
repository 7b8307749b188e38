"""The error tree. Import errors from `pykafka.exceptions`."""
