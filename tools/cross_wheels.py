"""Build wheels of this Python for other machines and C libraries, by the C compiler zig (extra `cross`).

`python -m tools.cross_wheels manylinux_2_17_aarch64` writes it to dist/; without a tag, all of `TAGS`. Building needs neither a
container nor an emulator. `--try` sends a message to and fro with the wheel for aarch64 and glibc: under qemu, by Debian's
Python for that machine, both unpacked into the cache. No registry has a Python over musl, so wheels for it are not run.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tools.pythons import unpack

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = shutil.ignore_patterns(".*", "build", "*.so", "__pycache__", "*.egg-info", "dist", "tests", "benchmarks")
#: {tag of a wheel: zig's name of the target, the ending of modules there}
TAGS = {
    "manylinux_2_17_aarch64": ("aarch64-linux-gnu.2.17", "aarch64-linux-gnu"),
    "musllinux_1_2_x86_64": ("x86_64-linux-musl", "x86_64-linux-musl"),
    "musllinux_1_2_aarch64": ("aarch64-linux-musl", "aarch64-linux-musl"),
}
#: Debian's release that has this interpreter for aarch64: (suite, Python).
DEBIAN = ("bookworm", "3.11")


def build(tag: str, source: Path) -> Path:
    """Build the wheel of one platform; return its path in dist/.

    :param tag: of `TAGS`
    :param source: a copy of the checkout; modules that were translated to C are not translated again
    """
    target, ending = TAGS[tag]
    # Compilers are named with their arguments, which setuptools splits at spaces.
    compiler = f"{sys.executable} -m ziglang cc -target {target}"
    environment = os.environ | {
        "CC": compiler,
        "CFLAGS": "-O2 -g0",
        "LDSHARED": f"{compiler} -shared -Wl,-s",
        "SETUPTOOLS_EXT_SUFFIX": f".{sys.implementation.cache_tag}-{ending}.so",
        "PYKAFKA_COMPILED": "1",
    }
    command = [sys.executable, "setup.py", "-q", "bdist_wheel", "--plat-name", tag, "--dist-dir", str(ROOT / "dist")]
    subprocess.run(command, cwd=source, env=environment, check=True)
    shutil.rmtree(source / "build")
    (wheel,) = (ROOT / "dist").glob(f"pykafka-*-{tag}.whl")
    return wheel


def check(wheel: Path) -> int:
    """Return the number of compiled modules in a wheel; end if it is not all of them."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    built = {name.partition(".")[0] for name in names if name.endswith(".so")}
    wanted = {name.removesuffix(".pxd") for name in names if name.endswith(".pxd")}
    if built != wanted:
        sys.exit(f"{wheel.name} lacks {', '.join(sorted(wanted - built))}")
    return len(built)


def try_out(wheel: Path) -> None:
    """Run the round trip with a wheel of aarch64 under qemu.

    :raises subprocess.CalledProcessError: it fails
    """
    suite, release = DEBIAN
    if sys.version_info[:2] != tuple(map(int, release.split("."))):
        sys.exit(f"Debian's {suite} has Python {release} for aarch64: build with that")
    emulator = unpack("qemu", "bookworm", "amd64", ["qemu-user-static"]) / "usr" / "bin" / "qemu-aarch64-static"
    root = unpack(f"aarch64-{release}", suite, "arm64", [f"python{release}", "libstdc++6"])
    with tempfile.TemporaryDirectory(prefix="pykafka-aarch64-") as folder:
        # A virtual environment, made by hand: this machine cannot run its Python by name.
        python = Path(folder) / "bin" / f"python{release}"
        python.parent.mkdir()
        python.symlink_to(root / "usr" / "bin" / python.name)
        (Path(folder) / "pyvenv.cfg").write_text(f"home = {root / 'usr' / 'bin'}\n")
        site = Path(folder) / "lib" / python.name / "site-packages"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(site), "--only-binary", ":all:"]
        for tag in ("manylinux2014", *(f"manylinux_2_{number}" for number in range(17, 37))):
            command += ["--platform", f"{tag}_aarch64"]
        subprocess.run([*command, f"{wheel}[gevent,embedded]"], check=True)
        command = [str(emulator), "-L", str(root), str(python), "-P", str(ROOT / "tools" / "round_trip.py"), "compiled"]
        subprocess.run(command, check=True, env={key: os.environ[key] for key in ("PATH", "HOME")})


def main() -> None:
    """Build, count, and perhaps try."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tags", nargs="*", choices=[*TAGS, []], default=[], metavar="TAG", help=" ".join(TAGS))
    parser.add_argument("--try", action="store_true", dest="tried", help="run the wheel of aarch64 under qemu")
    options = parser.parse_args()
    if importlib.util.find_spec("ziglang") is None:
        parser.error("zig is not here: pip install -e '.[test,cross]'")
    with tempfile.TemporaryDirectory(prefix="pykafka-cross-") as folder:
        source = Path(folder) / "source"
        shutil.copytree(ROOT, source, ignore=LEFT_OUT, symlinks=True)
        for tag in options.tags or TAGS:
            wheel = build(tag, source)
            print(f"cross: {wheel.name}, {check(wheel)} compiled modules", flush=True)
            if options.tried and tag.startswith("manylinux") and tag.endswith("aarch64"):
                try_out(wheel)


if __name__ == "__main__":
    main()
