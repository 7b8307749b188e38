"""`tools/setup.sh`: which environments it installs into."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[3] / "tools" / "setup.sh"


def _set_up(checkout: Path, environment: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(SETUP), environment, "test"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("link", [".venv", ".venvs", ".venvs/pools"])
def test_an_environment_that_is_borrowed_by_a_link_is_refused(tmp_path: Path, link: str) -> None:
    """A part of the matrix in a worktree installed that worktree's package into the environment of the checkout beside it."""
    checkout, lender = tmp_path / "checkout", tmp_path / "lender"
    place = checkout / link
    place.parent.mkdir(parents=True)
    python = lender / ("pools/bin/python" if link == ".venvs" else "bin/python")
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@" >> ' + str(tmp_path / "called"))
    python.chmod(0o755)
    place.symlink_to(lender)
    done = _set_up(checkout, ".venvs/pools" if link == ".venvs" else link)
    assert done.returncode == 1
    assert (
        f"{link} is a link to {lender}, the environment of another checkout: remove the link (rm {link})" in done.stderr
    )
    assert not (tmp_path / "called").exists()


def test_an_environment_that_is_named_by_hand_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "bin").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    python = link / "bin" / "python"
    python.write_text("#!/bin/sh\nexit 7\n")
    python.chmod(0o755)
    done = _set_up(tmp_path, str(link))
    assert "is a link" not in done.stderr
    assert done.returncode != 0  # that Python installs nothing
