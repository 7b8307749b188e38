"""The examples for AWS MSK and Azure, with stand-ins for the packages that sign tokens."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.support.sasl import Refused, SaslBroker


def takes(wanted: str) -> dict[str, Callable[[], Callable[[bytes], bytes]]]:
    """Return a broker's OAUTHBEARER that takes one token."""

    def step(message: bytes) -> bytes:
        if f"auth=Bearer {wanted}\x01".encode() not in message:
            raise Refused('{"status":"invalid_token"}')
        return b""

    return {"OAUTHBEARER": lambda: step}


def module(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    made = ModuleType(name)
    vars(made).update(members)
    monkeypatch.setitem(sys.modules, name, made)


def test_msk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    provider = SimpleNamespace(
        generate_auth_token=lambda region: (f"signed-for-{region}", int(time.time() * 1000) + 900_000)
    )
    module(monkeypatch, "aws_msk_iam_sasl_signer", MSKAuthTokenProvider=provider)
    example: Any = importlib.import_module("examples.msk_iam")
    with SaslBroker(takes("signed-for-eu-north-1")) as broker:
        example.main(broker.hosts, "eu-north-1", tls=False)
    assert capsys.readouterr().out == "scripted\n"


def test_azure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def get_token(scope: str) -> SimpleNamespace:
        assert scope == "https://me.servicebus.windows.net/.default"
        return SimpleNamespace(token="of-entra", expires_on=time.time() + 900)

    module(monkeypatch, "azure")
    module(monkeypatch, "azure.identity", DefaultAzureCredential=lambda: SimpleNamespace(get_token=get_token))
    example: Any = importlib.import_module("examples.azure_event_hubs")
    with SaslBroker(takes("of-entra")) as broker:
        example.main("me.servicebus.windows.net", broker.hosts, tls=False)
    assert capsys.readouterr().out == "scripted\n"
