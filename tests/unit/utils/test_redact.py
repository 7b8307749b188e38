"""`concealing`: errors without the frames that have secrets."""

from __future__ import annotations

import traceback

import pytest

from pykafka.utils.redact import concealing


@concealing
def check(secret: str) -> None:
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise ValueError("refused") from error


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_the_frames_of_the_function_and_of_causes_are_gone() -> None:
    with pytest.raises(ValueError, match="refused") as raised:
        check("secret")
    assert "check" not in frames(raised.value)
    cause = raised.value.__cause__
    assert isinstance(cause, KeyError)
    assert frames(cause) == []


def test_an_error_that_is_being_handled_keeps_its_frames() -> None:
    def fail() -> None:
        raise OSError("the caller's own")

    with pytest.raises(OSError, match="own") as raised:
        try:
            fail()
        except OSError:
            with pytest.raises(ValueError, match="refused") as refused:
                check("secret")
            raise
    assert frames(raised.value)[-1] == "fail"
    assert frames(refused.value)[-1] == "call"
