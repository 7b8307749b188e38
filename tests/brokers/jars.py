"""Jars by Maven coordinates, with mvn or with the Ivy that PySpark brings, kept in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

#: Seconds that a download may take.
DOWNLOAD_TIMEOUT_S = 600
# Sun's jars that old releases name and no repository has; nobody needs them.
_EXCLUDED = (("com.sun.jdmk", "jmxtools"), ("com.sun.jmx", "jmxri"), ("javax.jms", "jms"))


class BrokerSetupError(RuntimeError):
    """Real brokers cannot run here; the message names the missing piece and the remedy."""


def java() -> str:
    """Return the `java` that runs brokers: JAVA_HOME's, else the first of the PATH.

    :raises BrokerSetupError: there is none
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin")) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise BrokerSetupError("there is no `java` here: install a JDK 17 (or set JAVA_HOME) to start a real Kafka")
    return found


def cache_directory() -> Path:
    """Return the directory of downloads, and create it if it is missing."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(base) / "pykafka"
    path.mkdir(parents=True, exist_ok=True)
    return path


def classpath(coordinates: Sequence[str]) -> Path:
    """Fetch jars with their dependencies, once; return their directory.

    :param coordinates: `group:artifact:version` each
    :raises BrokerSetupError: they are not in the cache and cannot be fetched
    """
    return _fetched(tuple(coordinates), transitive=True)


def maven_jar(coordinate: str) -> Path:
    """Fetch one jar, once; return its path.

    :param coordinate: `group:artifact:version`
    :raises BrokerSetupError: it is not in the cache and cannot be fetched
    """
    _, artifact, version = coordinate.split(":")
    return _fetched((coordinate,), transitive=False) / f"{artifact}-{version}.jar"


def maven_archive(coordinate: str) -> Path:
    """Fetch one archive that is no jar, once; return its path.

    :param coordinate: `group:artifact:version:extension:classifier`
    :raises BrokerSetupError: it is not in the cache and cannot be fetched
    """
    (found,) = (path for path in _fetched((coordinate,), transitive=False).iterdir() if path.is_file())
    return found


def _fetched(coordinates: tuple[str, ...], transitive: bool) -> Path:
    key = hashlib.sha256(repr((coordinates, transitive)).encode()).hexdigest()[:12]
    name = coordinates[0].split(":")
    target = cache_directory() / "jars" / f"{name[1]}-{name[2]}-{key}"
    if target.is_dir():
        return target
    target.parent.mkdir(exist_ok=True)
    with locked(target.with_suffix(target.suffix + ".lock")):
        if target.is_dir():
            return target
        # Filled elsewhere and moved in whole: what the cache has is complete.
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            filled = Path(scratch) / "jars"
            filled.mkdir()
            _download(coordinates, transitive, filled, Path(scratch))
            if not any(filled.iterdir()):
                raise BrokerSetupError(
                    f"nothing was fetched for {', '.join(coordinates)}; check the network and try again"
                )
            filled.rename(target)
    return target


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file against other processes.

    :param path: of the file, made if missing
    """
    # Opened close-on-exec, as Python does: a broker started meanwhile must not inherit the lock.
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(coordinates: Sequence[str], transitive: bool, target: Path, scratch: Path) -> None:
    command = _maven(coordinates, transitive, target, scratch) or _ivy(coordinates, transitive, target, scratch)
    if command is None:
        raise BrokerSetupError(
            "Kafka's jars are fetched with `mvn` or with the Ivy of PySpark, and neither is here: "
            "install Maven, or pip install pyspark"
        )
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BrokerSetupError(
            f"fetching {', '.join(coordinates)} took more than {DOWNLOAD_TIMEOUT_S} s: check the network and try again"
        ) from error
    if done.returncode:
        raise BrokerSetupError(
            f"cannot fetch {', '.join(coordinates)} with {Path(command[0]).name}: check the network and try again. "
            f"It said:\n{done.stdout[-2000:]}"
        )


def _maven(coordinates: Sequence[str], transitive: bool, target: Path, scratch: Path) -> list[str] | None:
    program = shutil.which("mvn")
    if program is None:
        return None
    if not transitive:
        # Without a look at what they depend on, which for some cannot be had.
        (one,) = coordinates
        return [
            program,
            "--batch-mode",
            "--quiet",
            "dependency:copy",
            f"-Dartifact={one}",
            f"-DoutputDirectory={target}",
        ]
    excluded = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
        for group, artifact in _EXCLUDED
    )
    wanted = "".join(
        "<dependency>"
        + "".join(f"<{tag}>{escape(text)}</{tag}>" for tag, text in zip(_TAGS, one.split(":"), strict=True))
        + f"<exclusions>{excluded}</exclusions></dependency>"
        for one in coordinates
    )
    pom = scratch / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>pykafka.tests</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{wanted}</dependencies></project>"
    )
    return [
        program,
        "--batch-mode",
        "--quiet",
        "--file",
        str(pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={target}",
        "-DincludeScope=runtime",
    ]


_TAGS = ("groupId", "artifactId", "version")


def _ivy(coordinates: Sequence[str], transitive: bool, target: Path, scratch: Path) -> list[str] | None:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        return None
    wanted = "".join(
        f'<dependency org="{group}" name="{artifact}" rev="{version}" conf="default" '
        f'transitive="{"true" if transitive else "false"}">{_ivy_artifact(artifact, kind)}</dependency>'
        for group, artifact, version, *kind in (one.split(":") for one in coordinates)
    )
    types = (
        ["jar", "bundle"]
        if transitive or len(coordinates[0].split(":")) == len(_TAGS)
        else [coordinates[0].split(":")[3]]
    )
    excluded = "".join(f'<exclude org="{group}" module="{artifact}"/>' for group, artifact in _EXCLUDED)
    module = scratch / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="pykafka.tests" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{wanted}{excluded}</dependencies></ivy-module>"
    )
    return [
        java(),
        "-jar",
        str(jars[-1]),
        "-ivy",
        str(module),
        "-confs",
        "default",
        "-types",
        *types,
        "-cache",
        str(cache_directory() / "ivy"),
        "-retrieve",
        f"{target}/[artifact]-[revision].[ext]",
    ]


def _ivy_artifact(artifact: str, kind: Sequence[str]) -> str:
    """Return Ivy's element for a file that is no jar; "" for a jar.

    :param kind: nothing, or extension and classifier
    """
    if not kind:
        return ""
    extension, classifier = kind
    return f'<artifact name="{artifact}" type="{extension}" ext="{extension}" m:classifier="{classifier}"/>'
