"""The entry points of setup.cfg as those of an installed package, so that the pytest of another process finds the plugin."""

from __future__ import annotations

import configparser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def write_entry_points(directory: Path) -> Path:
    """Write the metadata of a distribution with the entry points of this checkout; put the directory into PYTHONPATH.

    :return: the directory
    """
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    written = configparser.ConfigParser()
    for group, lines in setup["options.entry_points"].items():
        written[group] = dict(line.split(" = ") for line in lines.strip().splitlines())
    metadata = directory / "pykafka-3.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pykafka\nVersion: 3\n")
    with (metadata / "entry_points.txt").open("w") as file:
        written.write(file)
    return directory
