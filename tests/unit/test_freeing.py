"""Short-lived objects are freed without a step of Python.

A signal's handler runs at the next such step, and what it raises while an object is being freed is lost: Ctrl-C would do
nothing. Only the interpreter can be asked, since such steps are few and signals seldom meet them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pykafka.connection import BrokerConnection
from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler, RequestHandler
from pykafka.network.channel import Channel
from tests.support.peers import HOST, Ask

Make = Callable[[Handler, dict[str, int]], Any]

#: The standard library's own step, for each of its threads.
OF_A_THREAD = "WeakSet.__init__.<locals>._remove"


def _steps(held: list[Any]) -> list[str]:
    """Free what is held, also by itself in circles, and return the functions that were called for it."""
    found: list[str] = []

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_qualname != OF_A_THREAD:
            found.append(f"{frame.f_code.co_qualname} ({frame.f_code.co_filename})")

    gc.collect()
    gc.disable()
    watching = gc.callbacks.copy()  # such as hypothesis'
    gc.callbacks.clear()
    sys.setprofile(note)
    try:
        held.clear()
        gc.collect()
    finally:
        sys.setprofile(None)
        gc.callbacks.extend(watching)
        gc.enable()
    return found


def _refused(handler: Handler, peers: dict[str, int]) -> Any:
    connection = BrokerConnection(HOST, peers["refused"], handler)
    with pytest.raises(KafkaException):
        connection.connect(5_000)
    return connection


def _closed(handler: Handler, peers: dict[str, int]) -> Any:
    connection = BrokerConnection(HOST, peers["broker"], handler)
    connection.connect(5_000)
    connection.disconnect()
    return connection


def _lost(handler: Handler, peers: dict[str, int]) -> Any:
    connection = BrokerConnection(HOST, peers["hang_up"], handler)
    connection.connect(5_000)
    with pytest.raises(KafkaException):
        connection.send(Ask().encode(1))
        connection.receive()
    return connection


def _stopped(handler: Handler, peers: dict[str, int]) -> Any:
    connection = BrokerConnection(HOST, peers["broker"], handler)
    connection.connect(5_000)
    requests = RequestHandler(handler, connection)
    requests.start()
    requests.request(Ask()).get(timeout=5)
    requests.stop()
    return connection, requests


def _never_opened(handler: Handler, peers: dict[str, int]) -> Any:
    channel = Channel(handler, lambda: BrokerConnection(HOST, peers["refused"], handler), lambda _: None, 1_000)
    with pytest.raises(KafkaException):
        channel.open()
    return channel


def _worker(handler: Handler, _: dict[str, int]) -> Any:
    worker = handler.spawn(int)
    assert worker.join(5)
    return worker


def _native_worker(handler: Handler, _: dict[str, int]) -> Any:
    worker = handler.native.spawn(int)
    assert worker.join(5)
    return worker


@pytest.mark.parametrize("in_a_circle", [False, True])
@pytest.mark.parametrize("make", [_refused, _closed, _lost, _stopped, _never_opened, _worker, _native_worker])
def test_no_step_of_python(handler: Handler, peers: dict[str, int], make: Make, in_a_circle: bool) -> None:
    held = [make(handler, peers)]
    if in_a_circle:
        held.append([held[0]])
        held[1].append(held[1])
    assert _steps(held) == []
