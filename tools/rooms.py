"""Draw the rooms of the package and their imports, as the Mermaid picture in CONTRIBUTING.md.

    python -m tools.rooms           # draw it anew
    python -m tools.rooms --check   # fail when the picture is not that of the code; `make lint` does this

Typing imports count. An arrow is left out where a longer way leads to the same room: the picture shows what stands on what,
not every import. The imports that the contracts in setup.cfg leave out are left out here, too.
"""

from __future__ import annotations

import configparser
import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN = "<!-- rooms: python -m tools.rooms draws this -->"
END = "<!-- end of rooms -->"
PACKAGE = "pykafka"
#: Nothing imports the package itself but programs; what loads the compiled modules stands beside all rooms.
LEFT_OUT = ("", "compiled")


def excepted() -> set[tuple[str, str]]:
    """Return the imports that setup.cfg excepts from its contracts."""
    settings = configparser.ConfigParser(allow_no_value=True)
    settings.read(ROOT / "setup.cfg")
    lines = settings["importlinter:contract:layers"]["ignore_imports"].splitlines()
    pairs = (line.partition(" -> ") for line in lines if " -> " in line)
    return {(importer.strip(), imported.strip()) for importer, _, imported in pairs}


def room(module: str) -> str:
    """Return the room of a module: a folder of the package, or a module of its root."""
    return module.split(".")[1] if "." in module else ""


def arrows() -> dict[str, set[str]]:
    """Return which rooms each room imports."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    without = excepted()
    found: dict[str, set[str]] = {}
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            above, below = room(importer), room(imported)
            if above != below and (importer, imported) not in without and not {above, below} & set(LEFT_OUT):
                found.setdefault(above, set()).add(below)
                found.setdefault(below, set())
    return found


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return all rooms below a room.

    :raises SystemExit: there is a circle
    """
    seen: set[str] = set()
    todo = list(graph[start])
    while todo:
        below = todo.pop()
        if below == start:
            sys.exit(f"rooms: {start} imports itself through others; lint-imports names the imports")
        if below not in seen:
            seen.add(below)
            todo += graph[below]
    return seen


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leave out each arrow that a longer way makes needless."""
    below = {name: reachable(graph, name) for name in graph}
    return {
        name: {end for end in ends if not any(end in below[other] for other in ends if other != end)}
        for name, ends in graph.items()
    }


def picture() -> str:
    """Return the picture as Mermaid text."""
    graph = reduced(arrows())
    folders = {name for name in graph if (ROOT / PACKAGE / name).is_dir()}
    lines = ["```mermaid", "flowchart TD"]
    for name in sorted(graph):
        lines.append(f'    {name}["{name}/"]' if name in folders else f'    {name}(["{name}"])')
    for name in sorted(graph):
        lines += [f"    {name} --> {below}" for below in sorted(graph[name])]
    return "\n".join([*lines, "```"])


def main() -> None:
    """Write the picture into the page, or compare it."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        sys.exit(f"rooms: {PAGE.name} lacks the lines that the picture stands between: {BEGIN} and {END}")
    drawn = f"{before}{BEGIN}\n\n{picture()}\n\n{END}{after}"
    if "--check" in sys.argv[1:]:
        if drawn != page:
            sys.exit(
                f"rooms: the picture in {PAGE.name} is not that of the imports: python -m tools.rooms draws it anew"
            )
    else:
        PAGE.write_text(drawn)


if __name__ == "__main__":
    main()
