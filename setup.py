"""Build of the compiled modules, and the long description; everything else about the package stands in setup.cfg.

A module is compiled when a .pxd lies beside its .py. Building is optional: without a C compiler or without Cython the
same sources are installed as they are, and a line says so. PYKAFKA_PURE_PYTHON=1 leaves compiling out.
PYKAFKA_COMPILED=1 makes a failure to compile an error; PYKAFKA_COMPILED=partly keeps the modules that do compile.
"""

import configparser
import os
import re
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, CompileError, ExecError, LinkError, PlatformError

ROOT = Path(__file__).resolve().parent
PURE = os.environ.get("PYKAFKA_PURE_PYTHON", "") not in ("", "0")
REQUIRED = os.environ.get("PYKAFKA_COMPILED", "") == "1"
PARTLY = os.environ.get("PYKAFKA_COMPILED", "") == "partly"
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
    # Without debug information, which is four fifths of a module: an archive for Spark's executors carries them all.
    return [Extension(name, [path], extra_compile_args=["-g0"]) for name, path in sources()]


class OptionalBuildExt(build_ext):
    """Compile all that has a .pxd, or nothing: compiled modules call each other in ways that the sources cannot."""

    def run(self) -> None:
        self.failures: dict[str, BaseException] = {}
        every = list(self.extensions)
        self.extensions = self.translated()
        if PARTLY or not self.failures:
            try:
                super().run()
            except (PlatformError, FileNotFoundError) as error:
                self.failures.update((ext.name, error) for ext in self.extensions)
        if self.failures:
            self.stay_pure(every)

    def translated(self) -> list[Extension]:
        """Turn each .py into C; done here and not at import, so that sdist and --version need no Cython."""
        try:
            from Cython.Build import cythonize
            from Cython.Compiler.Errors import CompileError as CythonError
        except ImportError as error:
            self.failures.update((ext.name, error) for ext in self.extensions)
            return []
        if any(ext.name.startswith("pykafka.handlers.") for ext in self.extensions):
            link_handlers()
        kept = []
        for ext in self.extensions:
            try:
                # One at a time: asked to go on after failures, Cython trips over setuptools' extensions.
                (done,) = cythonize(Extension(ext.name, list(ext.sources)), compiler_directives=DIRECTIVES, quiet=True)
            except CythonError:
                self.failures[ext.name] = CompileError("Cython refuses it (see above)")
            else:
                ext.sources = done.sources
                kept.append(ext)
        return kept

    def build_extension(self, ext: Extension) -> None:
        # Nothing to copy, as yet, is no error in a build in place: stay_pure() says what is.
        ext.optional = True
        try:
            super().build_extension(ext)
        except (CCompilerError, CompileError, LinkError, ExecError, PlatformError, OSError) as error:
            self.failures[ext.name] = error

    def stay_pure(self, every: list[Extension]) -> None:
        for name, error in self.failures.items():
            say(f"could not compile {name}: {error}")
        if REQUIRED:
            raise SystemExit("pykafka: PYKAFKA_COMPILED is set, and not all modules could be compiled (see above)")
        gone = [ext for ext in every if not PARTLY or ext.name in self.failures]
        self.extensions = [ext for ext in every if ext not in gone]
        for ext in gone:
            # A build of an older source must not be loaded in the place of this one.
            filename = str(self.get_ext_filename(ext.name))
            (Path(self.build_lib) / filename).unlink(missing_ok=True)
            if self.inplace:
                (ROOT / filename.replace("pykafka/handlers/", "handlers/")).unlink(missing_ok=True)
        say("Python sources are used, which are slower. Cython, a C compiler and Python's headers make them fast.")


def source_address() -> str | None:
    """Return where the sources are on the web, as setup.cfg's `project_urls` has it."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config.get("metadata", "project_urls", fallback="").splitlines()
    found = {name.strip().lower(): url.strip() for name, _, url in (line.partition("=") for line in lines)}
    return found.get("source")


def long_description() -> str:
    """Return README.md with links that work where there is no checkout: absolute ones, or none, but no broken ones."""
    address = source_address()

    def absolute(match: re.Match[str]) -> str:
        text, target = match.groups()
        if "://" in target:
            return match.group()
        # Package indexes give headings no anchors.
        return text if address is None or target.startswith("#") else f"[{text}]({address}/blob/main/{target})"

    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", absolute, (ROOT / "README.md").read_text(encoding="utf-8"))


setup(long_description=long_description(), ext_modules=extensions(), cmdclass={"build_ext": OptionalBuildExt})
