"""Contexts of calls that are made later."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context

import pytest

from pykafka.utils.contexts import entered

HERE: ContextVar[str] = ContextVar("HERE")


def test_variables_have_the_values_of_the_context_in_the_block() -> None:
    context = copy_context()
    context.run(HERE.set, "there")
    with entered(context):
        assert HERE.get() == "there"
        with entered(None):
            assert HERE.get() == "there"
    with pytest.raises(LookupError):
        HERE.get()


def test_a_block_that_raises_gives_them_back() -> None:
    context = copy_context()
    context.run(HERE.set, "there")
    token = HERE.set("here")
    with pytest.raises(KeyError), entered(context):
        raise KeyError
    assert HERE.get() == "here"
    HERE.reset(token)


def test_the_block_may_await() -> None:
    context = copy_context()
    context.run(HERE.set, "there")

    async def main() -> list[str]:
        found = []
        with entered(context):
            await asyncio.sleep(0)
            found.append(HERE.get())
        return [*found, HERE.get("none")]

    assert asyncio.run(main()) == ["there", "none"]
