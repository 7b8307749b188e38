"""The client of an async test: connected before its first line, closed behind its last, on the event loop that runs it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka.aio import KafkaClient


@contextmanager
def connected(item: pytest.Item, client: KafkaClient) -> Iterator[None]:
    """Make a coroutine function of a test, until the end of the block, connect the client first and close it at last.

    So the runner does not matter: pytest-asyncio, anyio and others await what they find as the function of the test.
    """
    test = getattr(item, "obj", None)
    if not inspect.iscoroutinefunction(test):  # it opens the client itself
        yield
        return

    @functools.wraps(test)
    async def with_client(*args: Any, **named: Any) -> Any:
        await client
        try:
            return await test(*args, **named)
        finally:
            await client.close()

    item.obj = with_client  # type: ignore[attr-defined]  # of functions
    try:
        yield
    finally:
        item.obj = test  # type: ignore[attr-defined]


def end(client: KafkaClient) -> None:
    """Close a client that was connected outside of a test's function; its loop has ended, or stands still."""
    home = vars(client).get("_home")
    if home is None:
        return
    if not home.is_closed():
        home.run_until_complete(client.close())
        return
    closing = client.close()
    try:
        closing.send(None)  # after the end of its loop it never waits
    except StopIteration:
        return
    closing.close()
