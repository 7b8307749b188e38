"""Build of the compiled modules; everything else about the package stands in setup.cfg.

A module is compiled when a .pxd lies beside its .py. Building is optional: without a C compiler or without Cython the
same sources are installed as they are, and a line says so. PYKAFKA_PURE_PYTHON=1 leaves compiling out;
PYKAFKA_COMPILED=1 makes a failure to compile an error (used where a slow build must not pass unnoticed).
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, CompileError, ExecError, LinkError, PlatformError

ROOT = Path(__file__).resolve().parent
PURE = os.environ.get("PYKAFKA_PURE_PYTHON", "") not in ("", "0")
REQUIRED = os.environ.get("PYKAFKA_COMPILED", "") not in ("", "0")
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    # An annotation `value: int` would otherwise fight with the `long long` of the .pxd.
    "annotation_typing": False,
}


def say(text: str) -> None:
    print(f"pykafka: {text}", file=sys.stderr)


def sources() -> list[tuple[str, str]]:
    """Find each module with a .pxd: its full name and the path of its .py, relative to this file."""
    found = []
    for top, package in (("pykafka", "pykafka"), ("handlers", "pykafka.handlers")):
        for pxd in sorted((ROOT / top).rglob("*.pxd")):
            inside = pxd.relative_to(ROOT / top)
            # rglob may or may not follow the symlink pykafka/handlers; those modules are found below handlers/.
            if top == "pykafka" and inside.parts[0] == "handlers":
                continue
            if pxd.with_suffix(".py").is_file():
                name = ".".join((package, *inside.with_suffix("").parts))
                found.append((name, str(pxd.with_suffix(".py").relative_to(ROOT))))
    return found


def link_handlers() -> None:
    """Make pykafka/handlers where it is missing (an sdist has no symlinks): Cython finds .pxd files by package path."""
    link = ROOT / "pykafka" / "handlers"
    if link.exists():
        return
    try:
        link.symlink_to(Path("..") / "handlers", target_is_directory=True)
    except OSError as error:
        say(f"cannot link {link} to handlers/ ({error}); modules there are compiled without their .pxd")


def extensions() -> list[Extension]:
    if PURE:
        return []
    return [Extension(name, [path]) for name, path in sources()]


class OptionalBuildExt(build_ext):
    """Compile what can be compiled; what cannot stays pure, with a line that says why."""

    def run(self) -> None:
        try:
            self.extensions = self.translated()
            super().run()
        except (PlatformError, FileNotFoundError) as error:
            self.stay_pure(error)

    def translated(self) -> list[Extension]:
        """Turn each .py into C; done here and not at import, so that sdist and --version need no Cython."""
        try:
            from Cython.Build import cythonize
        except ImportError as error:
            for ext in self.extensions:
                self.stay_pure(error, ext)
            return []
        if any(ext.name.startswith("pykafka.handlers.") for ext in self.extensions):
            link_handlers()
        plain = [Extension(ext.name, list(ext.sources)) for ext in self.extensions]
        done = cythonize(plain, compiler_directives=DIRECTIVES, quiet=True, exclude_failures=not REQUIRED)
        sources_of = {ext.name: ext.sources for ext in done}
        kept = []
        for ext in self.extensions:
            if ext.name in sources_of:
                ext.sources = sources_of[ext.name]
                kept.append(ext)
            else:
                self.stay_pure(CompileError("Cython refuses it (see above)"), ext)
        return kept

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except (CCompilerError, CompileError, LinkError, ExecError, PlatformError, OSError) as error:
            self.stay_pure(error, ext)

    def stay_pure(self, error: BaseException, ext: Extension | None = None) -> None:
        if REQUIRED:
            raise error
        say(f"could not compile {ext.name if ext is not None else 'the compiled modules'}: {error}")
        say("the pure Python source is used, which is slower. Cython, a C compiler and Python's headers make it fast.")
        if ext is None:
            return
        # A build of an older source must not be loaded in the place of this one.
        filename = Path(self.get_ext_filename(self.get_ext_fullname(ext.name)))
        beside = ROOT / Path(str(filename).replace("pykafka/handlers/", "handlers/"))
        for stale in (Path(self.build_lib) / filename, beside):
            stale.unlink(missing_ok=True)
        ext.optional = True


setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuildExt})
