"""The checks of a history, by subject; `pykafka.testing.checker` runs them all."""
