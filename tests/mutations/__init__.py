"""Defects of the past, put back one at a time: do the tests, and simulations, find them? See docs/development/mutations.md."""
