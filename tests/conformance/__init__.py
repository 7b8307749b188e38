"""The same programs of requests on real brokers and on the fake cluster: what they are answered must be equal.

`python -m tests.conformance record RELEASE...` writes down what real brokers answer. `test_conformance.py` holds the fake
cluster to that in each run, and real brokers in parts of the matrix.
"""
