"""Makes the agent one file that any Python 3.9 of a node runs: python -m tools.agent_zipapp [FILE]

What goes in is found by following imports from the agent's command. It ends with an error if that leads to anything but
the standard library and the parts of this project that the agent may use. The same sources give the same bytes.
"""

from __future__ import annotations

import ast
import io
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENTRY = "slurm_triage.node.cli"
"""The module with the agent's `main(argv) -> int`."""
ALLOWED = (
    *("node", "transport", "spool", "spool_evidence", "sections", "section_file", "filename_pattern", "nodeset", "log"),
    "report.mask",
)
"""Parts that the agent may use: modules, or packages with all that is in them."""
LISTED = ("slurm_triage/node/collect",)
"""Folders whose modules are found by listing them, not by an import."""
INTERPRETER = b"#!/usr/bin/python3 -I\n"
"""Isolated: neither variables nor folders of the caller say what root imports."""
MAIN = f"import sys\n\nfrom {ENTRY} import main\n\nsys.exit(main(sys.argv[1:]))\n"
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The earliest time that an archive can hold, for every file."""


class NotAllowed(Exception):
    """The agent needs what a node may not have; the message says which file imports what."""


def files(root: Path = ROOT) -> list[str]:
    """Paths below `root` of all that the agent needs, sorted. Raises `NotAllowed`."""
    entry = _file(root, ENTRY)
    if entry is None:
        raise NotAllowed(f"{ENTRY}: there is no such module")
    found: set[str] = set()
    ahead = [entry, *_packages(entry)]
    for folder in LISTED:
        ahead += [str(path.relative_to(root)) for path in (root / folder).glob("*.py")]
    while ahead:
        path = ahead.pop()
        if path in found:
            continue
        found.add(path)
        ahead += _needed(root, path)
    return sorted(found)


def _needed(root: Path, path: str) -> Iterator[str]:
    """The project's files that a file imports, and the packages that these lie in."""
    package = str(Path(path).parent).replace("/", ".")
    for name in _imported(ast.parse((root / path).read_text("utf-8")), package):
        top = name.partition(".")[0]
        if top != "slurm_triage":
            if top not in sys.stdlib_module_names:
                raise NotAllowed(f"{path} imports {name}, which is not of the standard library")
            continue
        file = _file(root, name)
        if file is None:  # a name inside a module, which is found by its own
            continue
        if not _allowed(name):
            raise NotAllowed(f"{path} imports {name}, which the agent may not use")
        yield file
        yield from _packages(file)


def _packages(file: str) -> list[str]:
    """The files of the packages that a file lies in: they are imported with it."""
    return [str(folder / "__init__.py") for folder in list(Path(file).parents)[:-1]]


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Names that are imported at run time, also inside functions; `from a import b` may mean a module a.b."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        else:
            yield from _imported(node, package)


def _file(root: Path, name: str) -> str | None:
    """The file of a module or package of this project; None if there is none of that name."""
    stem = name.replace(".", "/")
    return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if (root / path).is_file()), None)


def _allowed(name: str) -> bool:
    part = name.partition(".")[2]
    # A package above an allowed part is imported with it.
    return not part or any(f"{part}.".startswith(f"{one}.") or f"{one}.".startswith(f"{part}.") for one in ALLOWED)


def build(root: Path = ROOT) -> bytes:
    """The executable file. Raises `NotAllowed`."""
    contents = {path: (root / path).read_bytes() for path in files(root)}
    contents["__main__.py"] = MAIN.encode("ascii")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as stream:  # other zlibs would compress to other bytes
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name, LONG_AGO)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            stream.writestr(entry, contents[name])
    return INTERPRETER + archive.getvalue()


def main(argv: list[str]) -> int:
    """Writes the file that is named, else dist/slurm-triage-agent."""
    target = Path(argv[0]) if argv else ROOT / "dist" / "slurm-triage-agent"
    try:
        data = build()
    except NotAllowed as error:
        print(f"agent_zipapp: {error}", file=sys.stderr)
        return 1
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(0o755)
    print(f"{target}: {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
