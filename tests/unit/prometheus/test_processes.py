"""A collector of several processes, which share a directory: killed, hung and forked ones, damaged files, full disks."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from pykafka.handlers import Handler
from pykafka.metrics.metric import HISTOGRAM, Buckets
from pykafka.prometheus import KafkaCollector
from pykafka.prometheus.directory import ProcessDirectory
from tests.brokers.process import hold
from tests.support.collectors import BUCKETS, OPEN, SENT, Closed, some, values
from tests.support.some_metrics import HasSome, metric
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[3]
FAILED, UNREADABLE = "kafka_client_collector_directory_failed", "kafka_client_collector_unreadable_files"


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Return a function that starts a process with a collector, which has sent so many records."""
    started = []

    def start(sent: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.support.counting_process", str(tmp_path), sent]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_all_processes_show_the_sum(tmp_path: Path, child: Callable[[str], subprocess.Popen[str]]) -> None:
    children = [child("10"), child("20")]
    client = HasSome(*some(3))
    collector = KafkaCollector(client, directory=tmp_path)
    found = values(collector)
    assert (found[SENT], found[OPEN], found["kafka_client_collector_processes"]) == (33, 3, 3)
    for process in children:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("scrape\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())[SENT] == 33
    collector.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_totals_of_killed_processes_stay(
    tmp_path: Path, child: Callable[[str], subprocess.Popen[str]], number: signal.Signals
) -> None:
    client = HasSome(*some(3))
    collector = KafkaCollector(client, directory=tmp_path)
    for turn in range(1, 4):
        process = child("10")
        assert values(collector)[SENT] == 3 + 10 * turn
        process.send_signal(number)
        process.wait(10)
        for _ in range(3):
            found = values(collector)
            assert (found[SENT], found[OPEN], found["kafka_client_collector_processes"]) == (3 + 10 * turn, 1, 1)
    collector.close()
    # of 4 processes this one is left, and the sum of the others
    assert len([name for name in os.listdir(tmp_path) if name.endswith(".json")]) == 1
    again = KafkaCollector(directory=tmp_path)
    assert values(again)[SENT] == 33  # also when all have ended: the server was restarted
    again.close()


def test_a_process_that_ends_during_a_scrape_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has been read as a living one when another reader takes its totals over."""
    client, ending = HasSome(*some(2)), HasSome(*some(100))
    collector, other = KafkaCollector(client, directory=tmp_path), KafkaCollector(ending, directory=tmp_path)
    assert values(collector)[SENT] == 102
    load = ProcessDirectory._load_totals

    def end_before(directory: ProcessDirectory, left_out: dict[str, Exception]) -> Any:
        monkeypatch.undo()
        other.close()
        assert values(KafkaCollector(directory=tmp_path))[SENT] == 102
        assert len(list(tmp_path.glob("*.json"))) == 2  # of `collector`, and of the one that has taken over
        return load(directory, left_out)

    monkeypatch.setattr(ProcessDirectory, "_load_totals", end_before)
    assert values(collector)[SENT] == 102
    assert values(collector)[SENT] == 102
    collector.close()


def test_a_process_that_hangs_delays_no_scrape_and_shows_by_its_age(
    tmp_path: Path, child: Callable[[str], subprocess.Popen[str]]
) -> None:
    process = child("10")
    collector = KafkaCollector(directory=tmp_path)
    hold(process.pid)
    for path in tmp_path.glob("*.json"):
        os.utime(path, (time.time() - 100, time.time() - 100))
    begin = time.monotonic()
    found = values(collector)
    assert time.monotonic() - begin < 1
    assert found[SENT] == 10
    assert 99 < found["kafka_client_collector_figures_age_seconds"] < 200
    collector.close()


def test_totals_never_fall_whichever_process_is_scraped(
    tmp_path: Path, child: Callable[[str], subprocess.Popen[str]]
) -> None:
    """Each scrape is answered by another process, whose own figures are newer than those that the others have of it."""
    children = [child("10") for _ in range(3)]
    last = 0.0
    for turn in range(60):
        process = children[turn % 3]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("count\nscrape\n")
        process.stdin.flush()
        total = json.loads(process.stdout.readline())[SENT]
        assert total >= last
        last = total
    assert last == 30 + 60


def test_the_worker_writes_at_intervals_and_ends_with_its_client(handler: Handler, tmp_path: Path) -> None:
    client = Closed(handler, *some(3))
    writing = KafkaCollector(client, directory=tmp_path, write_interval_ms=100)
    reading = KafkaCollector(directory=tmp_path)
    until(handler, lambda: values(reading).get(SENT) == 3)
    client.some = some(5)
    until(handler, lambda: values(reading)[SENT] == 5)
    client.some = some(6)
    client.cluster.close()
    assert writing._writer is None
    found = values(reading)
    assert found[SENT] == 6
    assert OPEN not in found
    assert values(writing)[SENT] == 6
    another = Closed(handler, *some(1))
    writing.add(another)
    assert values(reading)[SENT] == 7
    another.cluster.close()
    writing.close()
    reading.close()


def test_the_worker_ends_with_a_collector_that_is_dropped(handler: Handler, tmp_path: Path) -> None:
    client = Closed(handler, *some(3))
    collector = KafkaCollector(client, directory=tmp_path, write_interval_ms=60_000)
    reference = weakref.ref(collector)
    del collector
    gc.collect()
    assert reference() is None
    client.cluster.close()  # the worker looks then; that nothing is left is checked of every test


def asked(process: subprocess.Popen[str], *lines: str) -> dict[str, float]:
    """Give a child some lines, and return what it shows then."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("".join(f"{line}\n" for line in (*lines, "scrape")))
    process.stdin.flush()
    found: dict[str, float] = json.loads(process.stdout.readline())
    return found


def test_a_directory_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        KafkaCollector(directory=tmp_path / "file")


def test_a_full_disk_makes_no_total_fall(tmp_path: Path, child: Callable[[str], subprocess.Popen[str]]) -> None:
    """Figures that a process cannot write are not shown: the next scrape reaches another one, which cannot know them."""
    full, other = child("10"), child("20")
    assert asked(other)[SENT] == 30
    found = asked(full, "full", "count")
    assert (found[SENT], found[FAILED], found["kafka_client_collector_processes"]) == (30, 1, 2)
    assert (asked(other)[SENT], asked(other)[FAILED]) == (30, 0)
    found = asked(full, "space")
    assert (found[SENT], found[FAILED]) == (31, 0)
    assert asked(other)[SENT] == 31
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".json", ".lock", ".lock"]


def test_a_directory_that_cannot_be_read_shows_no_part_as_the_sum(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = HasSome(*some(3))
    collector = KafkaCollector(client, directory=tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    (tmp_path / "gone").touch()
    for _ in range(3):
        found = values(collector)
        assert SENT not in found
        assert (found[FAILED], found["kafka_client_collector_clients"]) == (1, 1)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]  # for writing, for reading
    (tmp_path / "gone").unlink()
    found = values(collector)
    assert (found[SENT], found[FAILED]) == (3, 0)
    collector.close()


def test_files_of_others_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "pykafka-base-1-x.json").write_text("[false, {")
    (tmp_path / "pykafka-base-2-x.json").write_text('[false, {"a": 5}]')
    (tmp_path / "gauge_all_5.db").write_text("of prometheus_client itself")
    client = HasSome(*some(3))
    collector = KafkaCollector(client, directory=tmp_path)
    assert values(collector)[SENT] == 3
    collector.close()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "[false, {",
        '[false, {"a": 5}]',
        "[" * 100_000,
        '[false, {"a": ["guage", "max", "text", [], []]}]',
        '[false, {"a b": ["gauge", "max", "text", [], [[[], 1]]]}]',
        '[false, {"a": ["gauge", "max", "text", [], [[[["b c", "d"]], 1]]]}]',
        '[false, {"a": ["gauge", "max", "text", [], [[[], "many"]]]}]',
        '[false, {"a": ["gauge", "max", "text", [], [[[], 1' + "0" * 400 + "]]]}]",
        '[false, {"a": ["gauge", "mean", "text", [], [[[], [1, 0]]]]}]',
        '[false, {"a": ["histogram", "total", "text", [1, 2], [[[], [1, 2]]]]}]',
    ],
    ids=lambda text: text[:60],
)
def test_damaged_files_are_left_out_logged_once_and_end_with_their_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    here, ended = tmp_path / "pykafka-base-1-x.json", tmp_path / "pykafka-base-2-x.json"
    here.write_text(text)
    ended.write_text(text)
    ended.with_suffix(".lock").touch()
    (tmp_path / "pykafka-base-ended").write_text(text)
    client = HasSome(*some(3))
    collector = KafkaCollector(client, directory=tmp_path)
    for unreadable in (3, 1, 1):
        found = values(collector)
        assert (found[SENT], found[UNREADABLE]) == (3, unreadable)
    assert len(caplog.records) == 3
    assert not ended.exists()
    generate_latest(collector)
    collector.close()


def test_files_of_another_user_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a master process that is root's, while the workers are not: `preload_app` with `user`."""
    master = HasSome(*some(5))
    other = KafkaCollector(master, directory=tmp_path)
    (foreign,) = tmp_path.glob("*.json")
    other.close()
    load = ProcessDirectory._load_pair

    def refuse(path: str) -> Any:
        if path == str(foreign):
            raise PermissionError(13, "Permission denied", path)
        return load(path)

    monkeypatch.setattr(ProcessDirectory, "_load_pair", staticmethod(refuse))
    client = HasSome(*some(3))
    collector = KafkaCollector(client, directory=tmp_path)
    for _ in range(3):
        found = values(collector)
        assert (found[SENT], found[UNREADABLE], found[FAILED]) == (3, 1, 0)
    assert [str(foreign) in record.getMessage() for record in caplog.records] == [True]
    assert foreign.exists()
    collector.close()


def test_histograms_of_another_release_are_left_out(tmp_path: Path) -> None:
    """After an upgrade the sum of ended processes has other bounds, and old workers still run."""
    count = "kafka_client_producer_request_latency_seconds_count"

    def collecting(buckets: Buckets) -> tuple[HasSome, KafkaCollector]:
        client = HasSome(metric("producer-metrics", "request-latency", 4, HISTOGRAM, "ms", buckets), *some(3))
        return client, KafkaCollector(client, directory=tmp_path)

    old, new = Buckets((1.0, 2.0, 5.0), (1, 2, 1, 0), 40.0), BUCKETS
    clients = []
    for _ in range(2):
        client, collector = collecting(old)
        clients.append(client)
        assert values(collector)[count] >= 4
        collector.close()
    running, of_old = collecting(old)
    clients.append(running)
    assert values(of_old)[count] == 12
    client, of_new = collecting(new)
    found = values(of_new)
    assert (found[count], found[SENT]) == (4, 12)
    of_old.close()
    for _ in range(2):
        found = values(of_new)
        assert (found[count], found[SENT]) == (4, 12)
    generate_latest(of_new)
    of_new.close()
    client, again = collecting(new)
    assert values(again)[count] == 8
    again.close()


def test_a_directory_that_is_emptied_is_used_anew(tmp_path: Path) -> None:
    client = HasSome(*some(3))
    collector = KafkaCollector(client, directory=tmp_path / "shared")
    assert values(collector)[SENT] == 3
    for path in (tmp_path / "shared").iterdir():
        path.unlink()
    for _ in range(2):
        found = values(collector)
        assert (found[SENT], found["kafka_client_collector_processes"]) == (3, 1)
    shutil.rmtree(tmp_path / "shared")
    for _ in range(2):
        found = values(collector)
        assert (found[SENT], found["kafka_client_collector_processes"]) == (3, 1)
    collector.close()


def test_a_lock_that_another_program_removes_counts_nothing_twice(
    tmp_path: Path, child: Callable[[str], subprocess.Popen[str]]
) -> None:
    """Programs that clean temporary directories remove files by their age: the lock is as old as its process."""
    process = child("10")
    (lock,) = tmp_path.glob("*.lock")
    client = HasSome(*some(3))
    collector = KafkaCollector(client, directory=tmp_path)
    for _ in range(2):
        lock.unlink()
        for _ in range(2):
            found = values(collector)
            assert (found[SENT], found["kafka_client_collector_processes"]) == (13, 2)
        assert asked(process)[SENT] == 13
        assert lock.exists()
    os.utime(lock, (0, 0))
    asked(process)
    assert time.time() - lock.stat().st_mtime < 60
    lock.unlink()
    (figures,) = (path for path in tmp_path.glob("*.json") if path.stem == lock.stem)
    process.kill()
    process.wait(10)
    os.utime(figures, (0, 0))  # a process that has ended, and whose lock is gone as well
    for _ in range(3):
        found = values(collector)
        assert (found[SENT], found["kafka_client_collector_processes"]) == (13, 1)
    assert not figures.exists()
    collector.close()


def test_what_killed_processes_have_not_finished_is_removed(
    tmp_path: Path, child: Callable[[str], subprocess.Popen[str]]
) -> None:
    old, young, other = (
        tmp_path / f"{name}.new" for name in ("pykafka-base-1.json.x", "pykafka-base-2.lock.y", "another")
    )
    for path in (old, young, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (0, 0))
    process = child("10")
    process.kill()
    process.wait(10)
    collector = KafkaCollector(directory=tmp_path)
    values(collector)
    assert (old.exists(), young.exists(), other.exists()) == (False, True, True)
    collector.close()


def test_the_directory_of_prometheus_client_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    client = HasSome(*some(3))
    collector = KafkaCollector(client)
    assert values(collector)["kafka_client_collector_processes"] == 1
    collector.close()
    assert "kafka_client_collector_processes" not in values(KafkaCollector(client, directory=""))


def test_a_forked_child_has_figures_of_its_own(tmp_path: Path) -> None:
    """Its clients count from zero, also if they have counted as much as the parent by the first look."""
    client = HasSome(*some(3))
    collector = KafkaCollector(client, directory=tmp_path, write_interval_ms=100)
    child = os.fork()
    if child == 0:
        client.some = some(4)
        time.sleep(30)  # its worker has begun anew, and writes
        os._exit(0)
    try:
        deadline = time.monotonic() + 10
        while values(collector)[SENT] != 7:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert values(collector)["kafka_client_collector_processes"] == 2
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    found = values(collector)
    assert (found[SENT], found[OPEN]) == (7, 1)
    collector.close()
