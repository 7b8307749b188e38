"""The handlers under contract: the plain ones here, and those of a patched process in `test_patched`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from pykafka.handlers import AsyncioHandler, GEventHandler, Handler, ThreadingHandler
from tests.support.certs import Pems, make_pems
from tests.support.peers import running_peers

#: Set by `test_patched` in the process that it patches.
PATCHED = "PYKAFKA_TEST_PATCHED" in os.environ


def _native() -> Handler:
    return (ThreadingHandler() if PATCHED else GEventHandler()).native


HANDLERS: dict[str, Callable[[], Handler]] = {
    "threads": ThreadingHandler,
    "gevent": GEventHandler,
    "native": _native,
    # The whole test runs on a loop of that kind.
    "asyncio": AsyncioHandler,
    "uvloop": AsyncioHandler,
}


@pytest.fixture(params=list(HANDLERS))
def handler(request: pytest.FixtureRequest) -> Handler:
    """Return each handler in turn."""
    return HANDLERS[request.param]()


@pytest.fixture(scope="session")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Pems:
    """Return certificates."""
    return make_pems(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="session")
def peers(pems: Pems) -> Iterator[dict[str, int]]:
    """Yield the ports of all peers."""
    with running_peers(pems) as ports:
        yield ports
