"""The handlers under contract: the plain ones here, and those of a patched process in `test_patched`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from pykafka.handlers import AsyncioHandler, GEventHandler, Handler, ThreadingHandler
from pykafka.testing.virtual import VirtualHandler
from tests.support import virtual
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
    # The whole test runs in a scheduler.
    virtual.NAME: virtual.make_handler,
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
def real_peers(pems: Pems) -> Iterator[dict[str, int]]:
    """Yield the ports of all peers on real sockets."""
    with running_peers(pems) as ports:
        yield ports


@pytest.fixture
def peers(real_peers: dict[str, int], handler: Handler) -> Iterator[dict[str, int]]:
    """Yield the ports of all peers that the handler can meet."""
    if isinstance(handler, VirtualHandler):
        with virtual.running_peers(handler) as ports:
            yield ports
    else:
        yield real_peers
