"""Settings of a librdkafka client, and its shutdown: bounded in time, without blocking the hub."""

from __future__ import annotations

import confluent_kafka
import pytest

from pykafka.compat.rdkafka import settings as helpers
from pykafka.handlers import GEventHandler, Handler, ThreadingHandler
from pykafka.network.options import ConnectionSettings
from pykafka.security import SslConfig


@pytest.fixture(params=[ThreadingHandler, GEventHandler], ids=["threads", "greenlets"])
def handler(request: pytest.FixtureRequest) -> Handler:
    found: Handler = request.param()
    return found


def test_versions_of_tls_are_not_dropped() -> None:
    with pytest.raises(ValueError, match="librdkafka has no setting for versions of TLS"):
        helpers.tls_settings(SslConfig(None, versions=("TLSv1.2", "TLSv1.2")))


def test_a_proxy_is_refused_by_name() -> None:
    settings = ConnectionSettings(proxy="socks5h://joe:secret@host:1080")
    with pytest.raises(ValueError, match="librdkafka connects through no proxy.*socks5h://host:1080") as raised:
        helpers.connection_settings(settings)
    assert "secret" not in str(raised.value)


def test_librdkafka_takes_the_settings_of_connections() -> None:
    huge = ConnectionSettings(
        reconnect_backoff_ms=10**12,
        reconnect_backoff_max_ms=5,
        connections_max_idle_ms=10**12,
        socket_connection_setup_timeout_ms=1,
        socket_connection_setup_timeout_max_ms=10**12,
    )
    for settings in (ConnectionSettings(), huge):
        confluent_kafka.Producer(helpers.connection_settings(settings))


def test_it_is_waited_for(handler: Handler) -> None:
    """By the time that `end` returns it has been called, and what it kept alive is gone."""
    client = [object()]
    helpers.end(handler, client.clear, "a client")
    assert client == []


def test_one_that_does_not_end_is_left_behind(
    handler: Handler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names it; the hub turns meanwhile."""
    monkeypatch.setattr(helpers, "END_S", 0.3)
    release, ticks = handler.native.Event(), [0]

    def tick() -> None:
        while not release.is_set():
            ticks[0] += 1
            handler.sleep(0.01)

    ticker = handler.spawn(tick)
    helpers.end(handler, release.wait, "its producer for t")
    release.set()
    assert ticker.join(10)
    assert "librdkafka did not end its producer for t within 0.3 s" in caplog.text
    assert ticks[0] > 3


def test_where_no_thread_begins_any_more(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of the interpreter: it is called in place."""

    def refuse(*_args: object, **_named: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(type(handler.native), "spawn", refuse)
    client = [object()]
    helpers.end(handler, client.clear, "a client")
    assert client == []
