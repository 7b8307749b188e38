"""Fuzzing of all decoders, guided by coverage: `python -m tests.fuzz --minutes 60`. docs/development/fuzzing.md describes it."""
