"""Python without a C compiler: the package installs, says that it is not compiled, and README's program runs."""

from __future__ import annotations

import re
import shutil
import venv
from functools import partial
from pathlib import Path

import pytest

from tests.regressions.test_replaced_product import LEFT_OUT, ROOT, run

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(600)]


def test_install_and_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT, tmp_path / "source", ignore=LEFT_OUT, symlinks=True)
    venv.create(tmp_path / "home", with_pip=True)
    python = tmp_path / "home" / "bin" / "python"
    (tmp_path / "bin").mkdir()
    # No directory that has a compiler is on the path, and Python's own settings name none that works.
    run_without = partial(run, where=tmp_path, PATH=str(tmp_path / "bin"), CC=str(tmp_path / "cc"))
    said = run_without(python, "-m", "pip", "install", "--verbose", f"{tmp_path / 'source'}")
    assert "pykafka: Python sources are used, which are slower." in said
    assert "pure Python sources, nothing is compiled" in run_without(python, "-m", "pykafka")
    listed = run_without(python, "-m", "pip", "list", "--format=freeze")
    assert {line.partition("==")[0] for line in listed.splitlines()} - {"pip", "setuptools"} == {
        "crc32c",
        "cramjam",
        "pykafka",
    }
    program = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert program is not None
    assert run_without(python, "-c", program[1]).count("hello") == 1000
