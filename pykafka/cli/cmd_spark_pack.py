"""The command spark-pack: an archive that takes this package to Spark's executors, and the line that submits it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import click

from pykafka.cli import packing

#: What follows `spark-submit`, by the manager of the cluster; the first is the default.
_MANAGERS: dict[str, Callable[[str], list[str]]] = {
    "standalone": lambda archive: [
        "--master spark://HOST:7077",
        f"--archives {archive}#{packing.FOLDER}",
        f"--conf spark.executorEnv.PYTHONPATH=./{packing.FOLDER}",
    ],
    "yarn": lambda archive: [
        "--master yarn --deploy-mode cluster",
        f"--archives {archive}#{packing.FOLDER}",
        f"--conf spark.executorEnv.PYTHONPATH=./{packing.FOLDER}",
        f"--conf spark.yarn.appMasterEnv.PYTHONPATH=./{packing.FOLDER}",
    ],
    "kubernetes": lambda archive: [
        "--master k8s://HOST:6443 --deploy-mode cluster",
        f"--archives {archive}#{packing.FOLDER}",
        f"--conf spark.executorEnv.PYTHONPATH=./{packing.FOLDER}",
        f"--conf spark.kubernetes.driverEnv.PYTHONPATH=./{packing.FOLDER}",
    ],
}
#: The lines of a client of Spark Connect, which submits nothing.
_CONNECT = """spark = SparkSession.builder.remote("sc://HOST:15002").getOrCreate()
from pykafka.spark import ship
ship(spark, "{archive}")  # the server's Python needs pyarrow beforehand"""
#: Managers whose driver runs where this command does, and has the package from a folder.
_DRIVER_HERE = ("standalone",)


@click.command("spark-pack")
@click.option(
    "--python",
    default="",
    metavar="VERSION|PATH",
    help="The executors' Python: a version as in 3.12, or an interpreter on this machine that is like it. By default "
    "the Python that runs this.",
)
@click.option(
    "--platform",
    default="",
    metavar="TAG",
    help="The executors' platform as wheels name it, such as manylinux_2_28_x86_64. By default this machine.",
)
@click.option(
    "--wheel",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A wheel of this package for that Python and platform. Without one, the files of this installation are taken: "
    "compiled if that Python loads them, else the Python sources, which are slower.",
)
@click.option("--pure", is_flag=True, help="Leave the compiled modules out.")
@click.option(
    "--add", "added", multiple=True, metavar="REQUIREMENT", help="A further package, as pip names it; may be repeated."
)
@click.option(
    "--without",
    multiple=True,
    metavar="NAME",
    help="A package that the executors have already, such as pyarrow, which is most of the size; may be repeated.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The archive; by default a file in this directory, named by versions and platform.",
)
@click.option(
    "--manager",
    type=click.Choice([*_MANAGERS, "connect"]),
    default=next(iter(_MANAGERS)),
    show_default=True,
    help="The cluster for which to print the line; connect: the lines of a client of Spark Connect.",
)
def spark_pack(
    python: str,
    platform: str,
    wheel: Path | None,
    pure: bool,
    added: tuple[str, ...],
    without: tuple[str, ...],
    output: Path | None,
    manager: str,
) -> None:
    """Make an archive for Spark's executors, whose Python has neither this package nor what it needs.

    pip gets the packages. The archive is tried by a Python like the executors' if this machine has one. The last lines
    of the output are the spark-submit command, or what else uses the archive.
    """
    goal = packing.target(python, platform)
    made = packing.pack(goal, output or Path(packing.default_name(goal)), wheel, pure, added, without)
    kind = "compiled" if made.compiled else "Python sources, which are slower"
    tried = "a bare Python has imported it" if made.tried else "not tried: no such Python was named"
    click.echo(f"{made.path}: {made.nbytes / 1e6:,.1f} MB for {goal.name} ({kind}); {tried}", err=True)
    click.echo("  " + ", ".join(made.packages), err=True)
    click.echo(submit_line(made.path, manager))


def submit_line(archive: Path, manager: str) -> str:
    """Return the command that submits a job with an archive."""
    path = str(archive.resolve())
    if manager not in _MANAGERS:
        return _CONNECT.format(archive=path)
    path = shlex.quote(path)
    words = ["spark-submit", *_MANAGERS[manager](path), "JOB.py"]
    lines = " \\\n    ".join(words)
    if manager not in _DRIVER_HERE:
        return lines
    folder, made = (
        shlex.quote(str(archive.resolve().with_name(name))) for name in (packing.FOLDER, f"{packing.FOLDER}.new")
    )
    # A new folder has no files of an older archive, and is there only if the archive is whole.
    unpack = (
        f"rm -rf {made} && mkdir -p {made} && tar -xzf {path} -C {made} && \\\n"
        f"    rm -rf {folder} && mv {made} {folder}  # for the driver"
    )
    return f"{unpack}\nPYTHONPATH={folder} {lines}"


COMMANDS = (spark_pack,)
