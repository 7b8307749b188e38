"""Fuzzing of all decoders, guided by coverage: `python -m tests.fuzz --minutes 60`; see docs/development/fuzzing.md."""
