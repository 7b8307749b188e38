"""Fixtures that unit tests share with those of the contract."""

from tests.contract.conftest import peers, pems

__all__ = ["peers", "pems"]
