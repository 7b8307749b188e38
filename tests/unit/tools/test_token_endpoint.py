"""The token endpoint of the tests: what it gives, and how it fails on demand."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.brokers import TokenKey
from tests.brokers.certificates import run_openssl
from tests.support.token_endpoint import TokenEndpoint


def ask(endpoint: TokenEndpoint, secret: str | None = None, basic: bool = False) -> dict[str, object]:
    form = {"grant_type": "client_credentials", "scope": "kafka"}
    headers = {}
    secret = secret or endpoint.client_secret
    if basic:
        told = f"{endpoint.client_id}:{urllib.parse.quote_plus(secret)}"
        headers["Authorization"] = f"Basic {base64.b64encode(told.encode()).decode()}"
    else:
        form |= {"client_id": endpoint.client_id, "client_secret": secret}
    request = urllib.request.Request(endpoint.url, urllib.parse.urlencode(form).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, object] = json.loads(answer.read())
    return found


@pytest.mark.parametrize("basic", [False, True], ids=["form", "basic"])
def test_a_token(basic: bool) -> None:
    with TokenEndpoint(lambda user, lifetime_s: f"{user} {lifetime_s}") as endpoint:
        told = ask(endpoint, basic=basic)
        assert told == {"access_token": "alice 300", "token_type": "Bearer", "expires_in": 300, "scope": "kafka"}
        assert endpoint.given == ["alice 300"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(endpoint, "wrong", basic)
        assert refused.value.code == 401
        refused.value.close()


def test_failures_on_demand() -> None:
    with TokenEndpoint(lambda user, lifetime_s: "x") as endpoint:
        endpoint.fail(500, times=2)
        endpoint.fail(200, b"<html>")
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError) as failed:
                ask(endpoint)
            assert failed.value.code == 500
            failed.value.close()
        with pytest.raises(json.JSONDecodeError):
            ask(endpoint)
        assert ask(endpoint)["access_token"] == "x"
        assert len(endpoint.asked) == 4


def test_a_signature_that_openssl_finds_good(tmp_path: Path) -> None:
    key = TokenKey(tmp_path / "issuer.key")
    signed, _, signature = key.token("alice").rpartition(".")
    (tmp_path / "signed").write_text(signed)
    (tmp_path / "signature").write_bytes(base64.urlsafe_b64decode(signature + "=="))
    run_openssl("rsa", "-in", str(tmp_path / "issuer.key"), "-pubout", "-out", str(tmp_path / "issuer.pub"))
    arguments = ("-verify", str(tmp_path / "issuer.pub"), "-signature", str(tmp_path / "signature"))
    assert "Verified OK" in run_openssl("dgst", "-sha256", *arguments, str(tmp_path / "signed"))
    (found,) = json.loads(key.jwks())["keys"]
    assert found["kid"] == "key-1"
