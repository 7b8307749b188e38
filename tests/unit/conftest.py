"""Fixtures that unit tests share with those of the contract."""

from tests.contract.conftest import peers, pems, real_peers

__all__ = ["peers", "pems", "real_peers"]
