"""A scheduler, a network and a handler for each test."""

from __future__ import annotations

import pytest

from pykafka.testing.virtual import Network, Scheduler, VirtualHandler


@pytest.fixture
def scheduler() -> Scheduler:
    """Return a scheduler that ends a test which runs away."""
    return Scheduler(7, busy_limit=20)


@pytest.fixture
def network(scheduler: Scheduler) -> Network:
    """Return a network without faults."""
    return Network(scheduler)


@pytest.fixture
def virtual(scheduler: Scheduler, network: Network) -> VirtualHandler:
    """Return the handler of both."""
    return VirtualHandler(scheduler, network)
