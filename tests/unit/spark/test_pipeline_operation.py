"""The tables of a declaration about metrics, alerts and restarts, and the sentences about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka.spark.pipeline import Declaration, DeclarationError
from pykafka.spark.pipeline.operation import Address, Alert, Operation, Restart, parse_address, seconds

DECLARATION = (
    'checkpoint = "/data/checkpoint"\n[source]\nbrokers = "localhost:9092"\ntopic = "clicks"\n'
    '[sink]\nformat = "parquet"\npath = "/data/clicks"\n'
)


def load(path: Path, text: str) -> Operation:
    path.write_text(DECLARATION + text)
    return Declaration.load(path).operation


def test_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "clicks.toml"
    assert load(file, "") == Operation(None, None, Restart(0))
    monkeypatch.setenv("HOOK", "https://hooks.example/s3cret")
    found = load(
        file,
        '[metrics]\naddress = "[::1]:9400"\n[alert]\nurl = "${env:HOOK}"\ntimeout = "3 seconds"\nattempts = 2\n'
        '[restart]\nattempts = 7\nbackoff = "500 milliseconds"\nmax_backoff = "2 minutes"\n',
    )
    assert found == Operation(
        Address("::1", 9400), Alert("https://hooks.example/s3cret", 3.0, 2), Restart(7, 0.5, 120.0)
    )
    assert "s3cret" not in repr(found)
    assert str(found.metrics) == "[::1]:9400"
    assert load(file, "[restart]\n").restart == Restart(5, 10.0, 300.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[metrics]\n", "[metrics] address: missing, but required"),
        ('[metrics]\naddress = "9400"\n', "[metrics] address: must be host:port, like 127.0.0.1:9400, not '9400'"),
        (
            '[metrics]\naddress = "x:99999"\n',
            "[metrics] address: must be host:port, like 127.0.0.1:9400, not 'x:99999'",
        ),
        ('[metrics]\naddress = "::1:9400"\n', "must have an IPv6 address in brackets"),
        ("[alert]\n", "[alert] url: missing, but required"),
        ('[alert]\nurl = "ftp://s3cret"\n', "[alert] url: must be a URL that begins with https:// or http://"),
        ('[alert]\nurl = "https://me:s3cret@host/"\n', "[alert] url: must be a URL"),
        ('[alert]\nurl = "${env:NOT_SET_S3}"\n', "[alert] url: refers to the environment variable NOT_SET_S3"),
        ('[alert]\nurl = "https://h/"\nattempts = 0\n', "[alert] attempts: must be 1 or more, not 0"),
        ('[alert]\nurl = "https://h/"\ntimeout = "soon"\n', "[alert] timeout: must be an interval like '10 seconds'"),
        ("[restart]\nattempts = -1\n", "[restart] attempts: must be 0 or more, not -1"),
        ('[restart]\nbackoff = "1 hour"\nmax_backoff = "1 minute"\n', "[restart] max_backoff: is shorter than backoff"),
        ("[restart]\ntimes = 3\n", "[restart] times: not known"),
    ],
)
def test_problems(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        load(tmp_path / "clicks.toml", text)
    assert problem in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_intervals_and_addresses() -> None:
    assert (seconds("10 seconds"), seconds("1 minute"), seconds("5milliseconds"), seconds("x")) == (10, 60, 0.005, None)
    assert parse_address("localhost:0") == Address("localhost", 0)
