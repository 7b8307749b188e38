"""Fixtures of the tests of parallel work, which run on event loops as well."""

from __future__ import annotations

import pytest

from pykafka.handlers import AsyncioHandler, Handler
from tests import conftest


@pytest.fixture(params=[*conftest.HANDLERS, "asyncio", "uvloop"])
def handler(request: pytest.FixtureRequest) -> Handler:
    """Return each handler in turn; a test on a loop runs in its bridge."""
    made = conftest.HANDLERS.get(request.param, AsyncioHandler)
    return made()
