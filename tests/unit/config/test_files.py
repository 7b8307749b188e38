"""Files of configurations: Java's properties, TOML, JSON and INI, and errors that show no value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka.config import Configuration
from pykafka.config.files import read_file
from pykafka.config.properties import properties
from pykafka.exceptions import ConfigurationError

SECRET = "hunter2-do-not-show"


PROPERTIES = r"""
# a comment
! another
bootstrap.servers = a:1,\
    b:2
client.id:billing
linger.ms 5
sasl.password=pass\ word\u0021\\
"""


def test_properties() -> None:
    assert properties(PROPERTIES) == {
        "bootstrap.servers": "a:1,b:2",
        "client.id": "billing",
        "linger.ms": "5",
        "sasl.password": "pass word!\\",
    }
    assert properties("a\\=b\\:c = d = e\nempty\nlast=\\") == {"a=b:c": "d = e", "empty": "", "last": ""}


@given(st.dictionaries(st.text(st.sampled_from("abc.-_:= \\#!ä\t"), min_size=1), st.text()))
def test_properties_as_java_writes_them(values: dict[str, str]) -> None:
    def escaped(text: str, signs: str) -> str:
        named = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
        return "".join(
            named.get(one) or (f"\\{one}" if one in signs else one if " " <= one <= "~" else _unit(one)) for one in text
        )

    def _unit(letter: str) -> str:
        units = letter.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))

    lines = [
        f"{escaped(name, ' =:#!' + chr(92))}={escaped(value, ' =:#!' + chr(92))}" for name, value in values.items()
    ]
    found = properties("\n".join(lines))
    joined = {
        name.encode("utf-16", "surrogatepass").decode("utf-16", "replace"): value.encode(
            "utf-16", "surrogatepass"
        ).decode("utf-16", "replace")
        for name, value in found.items()
    }
    wanted = {
        name: value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for name, value in values.items()
    }
    assert joined == wanted


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.properties", "bootstrap.servers=a\nlinger.ms=5"),
        ("c.conf", "bootstrap.servers a\nlinger_ms: 5"),
        ("c.toml", 'bootstrap.servers = "a"\nlinger.ms = 5'),
        ("c.toml", 'bootstrap_servers = ["a"]\n[producer]\nlinger_ms = 5'),
        ("c.toml", '[other]\nx = 1\n[kafka]\nbootstrap.servers = "a"\nproducer.linger.ms = 5'),
        ("c.json", json.dumps({"bootstrap.servers": "a", "linger.ms": 5})),
        ("c.ini", "[other]\nx = %(y)s\n[kafka]\nbootstrap.servers = a\nlinger.ms = 5"),
        ("c.ini", "[client]\nbootstrap.servers = a\n[producer]\nlinger.ms = 5"),
    ],
)
def test_files(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = Configuration.read(path)
    assert (found.client["hosts"], found.producer["linger_ms"]) == ("a", 5)
    assert Configuration.read(str(path)).client == found.client


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("c.toml", f'password = "{SECRET}', "is not valid TOML"),
        ("c.json", f'{{"a": {SECRET}', "is not valid JSON, line 1"),
        ("c.json", f'["{SECRET}"]', "must be a table of keys and values"),
        ("c.ini", SECRET, "is not valid INI"),
        ("c.ini", f"[a]\nx={SECRET}\n{SECRET}", "is not valid INI"),
        ("c.properties", b"\xff", "cannot be read: it is not UTF-8"),
        ("c.json", "[" * 5_000, "is not valid JSON"),
        ("c.json", f'{{"{SECRET}": {"1" * 5_000}}}', "is not valid JSON"),
        ("c.toml", f"{SECRET} = {'1' * 5_000}", "is not valid TOML"),
        ("c.toml", f"{SECRET} = {'[' * 5_000}", "is not valid TOML"),
        ("c.toml", "a." * 5_000 + f"a = '{SECRET}'", "is not valid TOML"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: str | bytes, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError, match=text) as caught:
        read_file(path)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or path.suffix == ".properties"
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_file(tmp_path / "none.toml")


@pytest.mark.parametrize("blank", ["\u2028", "\u0085", "\x0b", "\x1c", "\u00a0"])
def test_only_what_java_calls_white_space_divides_properties(blank: str) -> None:
    assert properties(f"a=x{blank}y\\\n{blank}z\nb=1") == {"a": f"x{blank}y{blank}z", "b": "1"}


def test_java_writes_characters_beyond_16_bits_as_two_escapes() -> None:
    assert properties("sasl.password=\\ud83d\\ude00\\u00e4\\ud83d") == {"sasl.password": "\U0001f600\u00e4\ud83d"}


@pytest.mark.parametrize("name", ["c.properties", "c.toml", "c.json", "c.ini"])
def test_a_mark_before_the_text_is_no_part_of_it(tmp_path: Path, name: str) -> None:
    """Windows writes one."""
    text = {
        "c.properties": "bootstrap.servers=a:1",
        "c.toml": 'bootstrap.servers = "a:1"',
        "c.json": '{"bootstrap.servers": "${file:%s}"}' % (tmp_path / "secret"),
        "c.ini": "[DEFAULT]\nbootstrap.servers=a:1",
    }[name]
    (tmp_path / "secret").write_text("a:1", encoding="utf-8-sig")
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert Configuration.read(tmp_path / name).client == {"hosts": "a:1"}
