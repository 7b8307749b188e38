"""`config = "FILE"` of a pipeline: what `from_config` refuses is refused there, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from pykafka.spark.pipeline.configured import configured


class Table:
    """A table as `configured` uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []

    def text(self, name: str) -> str:
        return str(self.path)

    def problem(self, name: str, text: str) -> None:
        self.problems.append(text)


def read(tmp_path: Path, values: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"bootstrap.servers": "a:1", **values}))
    table = Table(path)
    return configured(cast(Any, table)), table.problems


LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
TOKENS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({**LOGIN, "sasl.password": 1.50}, "sasl.password must be a text: put it in quotes"),
        ({"security.protocol": "SSL", "ssl.key.password": 7}, "ssl.key.password must be a text"),
        ({"sasl.username": "me", "sasl.password": "x"}, "but security.protocol is PLAINTEXT (its default)"),
        ({"security.protocol": "SSL", "sasl.username": "me", "sasl.password": "x"}, "but security.protocol is SSL"),
        ({"security.protocol": "SSL", "ssl.password": "x", "ssl.keystore.password": "y"}, "with two values"),
        ({**TOKENS, "sasl.oauthbearer.method": "default"}, "must be oidc in a pipeline"),
    ],
)
def test_what_is_refused(tmp_path: Path, values: dict[str, Any], said: str) -> None:
    problems = read(tmp_path, values)[1]
    assert len(problems) == 1
    assert said in problems[0]


def test_what_is_taken(tmp_path: Path) -> None:
    options, problems = read(tmp_path, {**LOGIN, "sasl.password": "1.50"})
    assert problems == []
    assert 'password="1.50"' in options["kafka.sasl.jaas.config"]
    options, problems = read(
        tmp_path, {**TOKENS, "sasl.oauthbearer.method": "OIDC", "ssl.password": "x", "ssl.keystore.password": "x"}
    )
    assert problems == []
    assert options["kafka.ssl.key.password"] == options["kafka.ssl.keystore.password"] == "x"
