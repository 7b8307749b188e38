"""Programs for type checkers: nothing here runs.

mypy and pyright, both strict, accept each line. One that ends in `# type: ignore[...]` is an error for both: an ignored line
without an error is itself one.
"""
