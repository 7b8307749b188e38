"""The flight recorder: its bounds, its file without secrets, signals, and errors that have the last events."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import stat
import subprocess
import sys
import threading
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException, NoBrokersAvailableError
from pykafka.handlers import Handler, ThreadingHandler
from pykafka.metrics.flight_file import FlightFile
from pykafka.metrics.flight_recorder import EVENT_BYTES, REQUEST_BYTES, FlightRecorder
from pykafka.metrics.flight_signal import FlightSignal
from pykafka.metrics.flight_timeline import FlightTimeline
from pykafka.metrics.listener import CONNECTION, FAILED, POLLED, REBALANCED, WAITED
from pykafka.metrics.options import MetricsSettings
from pykafka.metrics.recorder import Recorder
from pykafka.protocol import wire


def recorder(handler: Handler | None = None, max_bytes: int = 64 * 1024) -> tuple[Recorder, FlightRecorder]:
    handler = handler or ThreadingHandler()
    flight = FlightRecorder(handler, "billing", max_bytes)
    return Recorder(handler, flight), flight


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_requests_do_not_push_events_out() -> None:
    listener, flight = recorder()
    listener.on_event(REBALANCED, "group g", 0.5, "generation 3")
    connection = listener.part(CONNECTION, (1, "main"))
    for number in range(10_000):
        connection.on_answer(wire.FetchRequest, 100, 1000, 0.1, float(number))
    assert [event[1] for event in flight.events] == [REBALANCED]
    assert len(flight.requests) == flight.requests.maxlen
    assert flight.requests[-1][0] == 9999.0


def test_polls_are_counted_and_not_kept() -> None:
    listener, flight = recorder()
    for kind in (POLLED, WAITED):
        listener.on_event(kind, "consumer", 0.1)
    assert set(listener.events) == {POLLED, WAITED}
    assert not flight.events


def test_the_memory_of_entries_is_as_announced() -> None:
    """Full rings with the longest texts stay below the bound of the option."""
    bound = 256 * 1024
    listener, flight = recorder(max_bytes=bound)
    connection = listener.part(CONNECTION, (1, "main"))
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(5000):
            connection.on_answer(wire.FetchRequest, 1000 + number, 100_000 + number, number / 7, number / 3)
            listener.on_event(FAILED, f"partition {number}", number / 9, "x" * 10_000 + str(number))
        gc.collect()
        took = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert bound / 3 < took < bound
    assert flight.requests.maxlen == bound // 2 // REQUEST_BYTES
    assert flight.events.maxlen == bound // 2 // EVENT_BYTES


@pytest.mark.parametrize("settings", [{"record_metrics": False}, {"flight_recorder_bytes": 0}])
def test_it_can_be_turned_off(settings: dict[str, Any]) -> None:
    assert FlightRecorder.of(ThreadingHandler(), MetricsSettings(**settings), "c") is None


def test_after_a_fork_the_ring_begins_anew(handler: Handler) -> None:
    flight = FlightRecorder.of(handler, MetricsSettings(), "c")
    assert flight is not None
    Recorder(handler, flight).on_event(FAILED, "x")
    flight.after_fork()
    assert not flight.events


def test_the_file(handler: Handler, tmp_path: Path) -> None:
    listener, flight = recorder(handler)
    now = handler.now()
    listener.part(CONNECTION, (2, "produce")).on_answer(wire.ProduceRequest, 40, 60, 0.25, now + 1)
    listener.on_event(REBALANCED, "group g", 0.5, "generation 3")
    FlightFile(flight).write(tmp_path / "{pid}.jsonl")
    path = tmp_path / f"{os.getpid()}.jsonl"
    header, first, second = lines_of(path)
    assert header["format"] == "pykafka-flight"
    assert (header["client_id"], header["process"], header["entries"]) == ("billing", os.getpid(), 2)
    assert abs(header["wall_offset"] + now - handler.time_ms() / 1000) < 5
    assert (first["kind"], first["subject"], first["seconds"]) == (REBALANCED, "group g", 0.5)
    assert second == {
        "at": round(now + 1, 6),
        "kind": "request",
        "api": "Produce",
        "node": 2,
        "channel": "produce",
        "seconds": 0.25,
        "sent": 40,
        "received": 60,
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_is_named_and_the_old_one_stays(tmp_path: Path) -> None:
    _, flight = recorder()
    with pytest.raises(FileNotFoundError, match=r"flight record was not written.*missing/f"):
        FlightFile(flight).write(tmp_path / "missing" / "f")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(IsADirectoryError, match="flight record was not written"):
        FlightFile(flight).write(folder)
    assert list(tmp_path.iterdir()) == [folder]


def test_text_that_is_no_unicode_is_written_and_read(tmp_path: Path) -> None:
    listener, flight = recorder()
    listener.on_event(FAILED, "group \udcff", 0.0, os.fsdecode(b"caf\xe9 caf\xc3\xa9"))
    FlightFile(flight).write(tmp_path / "f")
    assert [(line["subject"], line["detail"]) for line in lines_of(tmp_path / "f")[1:]] == [
        ("group \udcff", "caf\udce9 café")
    ]
    (moment,) = FlightTimeline(tmp_path / "f").moments()
    assert moment.text == "failed  group ?  caf? café"


def test_what_interrupts_the_writing_leaves_no_half_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FlightFile(recorder()[1])

    def interrupted() -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(file, "lines", interrupted)
    with pytest.raises(KeyboardInterrupt):
        file.write(tmp_path / "f")
    assert not list(tmp_path.iterdir())


def test_no_secret_is_in_the_file(tmp_path: Path) -> None:
    listener, flight = recorder()
    listener.on_event(FAILED, "login", 0.0, KafkaException("sasl.jaas.config='x password=\"hunter2 x\"' is wrong"))
    listener.on_event(FAILED, "token", 0.0, "Authorization: Bearer abc.hunter2.def")
    listener.on_event(FAILED, "proxy http://joe:hunter2@proxy:80", 0.0, "{'client_secret': 'hunter2', 'a': 1}")
    FlightFile(flight).write(tmp_path / "f")
    text = (tmp_path / "f").read_text()
    assert "hunter2" not in text
    assert "proxy:80" in text
    assert "is wrong" in text


def test_rings_that_change_while_they_are_read() -> None:
    listener, flight = recorder()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            listener.on_event(FAILED, "x", 0.0, "y")

    worker = threading.Thread(target=work)
    worker.start()
    try:
        assert all(len(FlightFile(flight).lines()) > 1 for _ in range(50) if flight.events)
    finally:
        stop.set()
        worker.join()


class Client:
    """A client as far as a signal's handler knows it."""

    def __init__(self) -> None:
        self.listener, made = recorder()
        self.flight: FlightRecorder | None = made
        self.ended = False


@pytest.fixture
def sigusr1() -> Any:
    """Restore the handler of the signal."""
    before = signal.getsignal(signal.SIGUSR1)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_writes_the_file_and_calls_the_handler_of_before(sigusr1: int, tmp_path: Path) -> None:
    called: list[int] = []
    signal.signal(sigusr1, lambda number, _: called.append(number))
    client = Client()
    client.listener.on_event(FAILED, "x")
    FlightSignal.install(client, sigusr1, str(tmp_path / "former"))
    FlightSignal.install(client, sigusr1, str(tmp_path / "f"))  # replaces it
    os.kill(os.getpid(), sigusr1)
    assert len(lines_of(tmp_path / "f")) == 2
    assert called == [sigusr1]
    assert not (tmp_path / "former").exists()


def test_a_signal_while_the_same_file_is_written(sigusr1: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    assert client.flight is not None
    file = FlightFile(client.flight)
    FlightSignal.install(client, sigusr1, str(tmp_path / "f"))
    lines = file.lines
    sent: list[int] = []

    def interrupted() -> Any:
        if not sent:
            sent.append(sigusr1)
            os.kill(os.getpid(), sigusr1)
        return lines()

    monkeypatch.setattr(file, "lines", interrupted)
    file.write(tmp_path / "f")
    assert sent
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_two_clients_may_name_one_signal(sigusr1: int, tmp_path: Path) -> None:
    clients = {name: Client() for name in ("a", "b")}
    for name, client in clients.items():
        FlightSignal.install(client, sigusr1, str(tmp_path / name))
    os.kill(os.getpid(), sigusr1)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_a_closed_client_leaves_the_signal_to_others(sigusr1: int, tmp_path: Path) -> None:
    called: list[int] = []
    signal.signal(sigusr1, lambda number, _: called.append(number))
    clients = {name: Client() for name in ("closed", "dropped", "open")}
    for name, client in clients.items():
        FlightSignal.install(client, sigusr1, str(tmp_path / name))
    reference = weakref.ref(clients["dropped"].flight)
    clients["closed"].ended = True
    del clients["dropped"], client
    gc.collect()
    assert reference() is None
    os.kill(os.getpid(), sigusr1)
    assert ([path.name for path in tmp_path.iterdir()], called) == (["open"], [sigusr1])
    clients["open"].ended = True
    for number in range(100):  # handlers of former clients do not pile up
        FlightSignal.install(other := Client(), sigusr1, str(tmp_path / str(number)))
        other.ended = True
    assert not isinstance(signal.getsignal(sigusr1).before, FlightSignal)  # type: ignore[union-attr]


def test_a_signal_of_the_applications_ends_nothing_without_a_client(sigusr1: int, tmp_path: Path) -> None:
    client = Client()
    signal.signal(sigusr1, signal.SIG_DFL)
    FlightSignal.install(client, sigusr1, str(tmp_path / "f"))
    os.kill(os.getpid(), sigusr1)
    assert (tmp_path / "f").exists()
    client.ended = True
    os.kill(os.getpid(), sigusr1)  # its default would end the process


ENDS = """
import os, signal, sys
from pykafka.metrics.flight_signal import FlightSignal
from pykafka.metrics.flight_timeline import FlightTimeline
from tests.unit.metrics.test_flight_recorder import Client

number, path = int(sys.argv[1]), sys.argv[2]
clients = [Client(), Client()]
for i, client in enumerate(clients):
    FlightSignal.install(client, number, f"{path}{i}")
clients[0].ended = True
for _ in range(2):  # the second is for those whose default ends nothing
    os.kill(os.getpid(), number)
assert type(signal.getsignal(number)) is FlightSignal
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH, signal.SIGINT])
def test_a_signal_does_what_it_would_without_a_handler(number: signal.Signals, tmp_path: Path) -> None:
    words = [sys.executable, "-c", ENDS, str(int(number)), str(tmp_path / "f")]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    expected = {signal.SIGWINCH: 0}.get(number, -number)
    assert ended.returncode == expected, ended.stderr
    assert ("KeyboardInterrupt" in ended.stderr) == (number == signal.SIGINT)
    assert [path.name for path in tmp_path.iterdir()] == ["f1"]


def test_a_signal_whose_file_cannot_be_written_raises_nothing(sigusr1: int, capfd: pytest.CaptureFixture[str]) -> None:
    FlightSignal.install(client := Client(), sigusr1, "/nowhere/f")
    os.kill(os.getpid(), sigusr1)
    assert "/nowhere/f" in capfd.readouterr().err
    assert not client.ended


def test_the_main_thread_alone_may_name_a_signal() -> None:
    errors: list[Exception] = []

    def work() -> None:
        try:
            FlightSignal.install(Client(), signal.SIGUSR1, "f")
        except ValueError as error:
            errors.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert "main thread" in str(errors)


def test_an_error_has_the_last_events(caplog: pytest.LogCaptureFixture) -> None:
    listener, flight = recorder()
    for number in range(200):
        listener.on_event(FAILED, f"partition {number}", 0.001, "why")
    error: Any = KafkaException("the end")
    assert KafkaException.flight is None
    with caplog.at_level(logging.DEBUG, "pykafka.metrics"):
        listener.on_fatal(error)
    assert error.flight is not None
    assert len(error.flight.splitlines()) == 50
    assert error.flight.splitlines()[-1].endswith("s  failed  partition 199  1.0 ms  why")
    assert error.again().flight == error.flight
    assert "before KafkaException:" in caplog.text
    plain: Any = RuntimeError()
    listener.on_fatal(plain)
    assert plain.flight
    assert flight.events


def test_a_client_that_cannot_begin_says_what_it_tried(handler: Handler) -> None:
    with pytest.raises(NoBrokersAvailableError) as caught:
        KafkaClient("127.0.0.1:1", handler=handler)
    assert "unreachable  127.0.0.1:1" in str(caught.value.flight)
