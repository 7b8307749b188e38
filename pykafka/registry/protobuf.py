"""Protobuf: schemas as descriptors, from text by protoc, or from descriptors that a registry or a file has."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pykafka.exceptions import SchemaError
from pykafka.registry.schemas import PROTOBUF, Schema
from pykafka.registry.well_known import check_installed, confluent_files, google_sources, known_file

#: The name of the file that a schema of a subject is, for protoc.
_MAIN = "schema.proto"
#: Lines of protoc's own log, as about a text that names no syntax.
_LOGGED = re.compile(r"^(WARNING: All log messages|[IWEF][0-9]{4} [0-9:.]+ ).*\n?", re.MULTILINE)
#: How long protoc may take (s).
COMPILE_S = 60
#: So many compiled schemas are kept in a process.
_COMPILED_MAX = 64
#: The number of a group in FieldDescriptorProto.Type.
_GROUP = 10
#: The longest name of a file, and with its directories (bytes).
_NAME_MAX, _PATH_MAX = 255, 800
#: What protoc says of a file that is missing.
_NOT_FOUND = re.compile(r"^(.+): File not found\.$", re.MULTILINE)


class ProtoFile:
    """One file of Protobuf, with those that it imports.

    :param descriptors: FileDescriptorProto each, behind those that it imports; the last one is the file
    :raises SchemaError: an import is missing
    """

    def __init__(self, descriptors: Sequence[Any]) -> None:
        from google.protobuf import descriptor_pool

        self._pool = descriptor_pool.DescriptorPool()
        try:
            for descriptor in descriptors:
                self._pool.Add(descriptor)
            self._file = self._pool.FindFileByName(descriptors[-1].name)
        except (KeyError, TypeError) as error:
            raise SchemaError(f"not a valid Protobuf schema, or its imports are missing: {error}") from error
        #: Full names of the file's messages, by their paths: number in the file, then in each message around.
        self._paths: dict[tuple[int, ...], str] = {}
        #: The same as some clients count: entries of maps, which no text declares, are messages of a descriptor, too.
        self._counted: dict[tuple[int, ...], str] = {}
        #: And as those count that take groups for messages, which they are in a descriptor, and not in a text.
        self._grouped: dict[tuple[int, ...], str] = {}
        file, package = descriptors[-1], self._file.package
        self._note(file.message_type, self._grouped, (), package, lambda one, name: not one.options.map_entry)
        self._note(file.message_type, self._counted, (), package, lambda one, name: True)
        groups = _groups(file)
        self._note(
            file.message_type,
            self._paths,
            (),
            package,
            lambda one, name: not one.options.map_entry and f".{name}" not in groups,
        )

    def _note(
        self,
        messages: Any,
        paths: dict[tuple[int, ...], str],
        around: tuple[int, ...],
        prefix: str,
        counts: Callable[[Any, str], bool],
    ) -> None:
        index = -1
        for message in messages:
            name = f"{prefix}.{message.name}" if prefix else message.name
            if not counts(message, name):
                continue
            index += 1
            paths[(*around, index)] = name
            self._note(message.nested_type, paths, (*around, index), name, counts)

    @property
    def messages(self) -> list[str]:
        """The full names of the file's messages, outside of others."""
        return [name for path, name in self._paths.items() if len(path) == 1]

    def names_at(self, path: Sequence[int]) -> list[str]:
        """Return the full names of the messages that a path may mean, the likelier one first.

        :param path: number of the message in the file, then in each message around it
        :raises SchemaError: there is none
        """
        ways = (self._paths, self._grouped, self._counted)
        found = [paths[tuple(path)] for paths in ways if tuple(path) in paths]
        if not found:
            raise SchemaError(f"the schema has no message at {tuple(path)}")
        return found

    def path_of(self, name: str) -> tuple[int, ...]:
        """Return the path of a message by its full name.

        :raises SchemaError: it is not in this file
        """
        for path, one in (*self._paths.items(), *self._grouped.items()):
            if one == name:
                return path
        raise SchemaError(
            f"{name} is not in the schema itself, but in what it imports: name one of {', '.join(self.messages)}"
        )

    def named(self, name: str) -> Any:
        """Return the descriptor of a message by its name; it may lack the package if that is the file's.

        :raises SchemaError: there is none
        """
        for full in (name, f"{self._file.package}.{name}"):
            try:
                return self._pool.FindMessageTypeByName(full)
            except KeyError:
                continue
        raise SchemaError(f"the schema has no message {name!r}; in it are {', '.join(self.messages)}")


def _groups(around: Any) -> set[str]:
    """Return the full names of the groups in a file or a message, each with a dot before it.

    :param around: FileDescriptorProto or DescriptorProto
    """
    is_file = hasattr(around, "message_type")
    fields = around.extension if is_file else (*around.field, *around.extension)
    found = {field.type_name for field in fields if field.type == _GROUP}
    return found.union(*map(_groups, around.message_type if is_file else around.nested_type))


def compiled(schema: Schema, needed: Mapping[str, Schema]) -> ProtoFile:
    """Return the file that a schema is.

    :param schema: text, or a descriptor in base64
    :param needed: what it imports, by the names that it imports them by; what Confluent's serializers know may be missing
    :raises SchemaError: it is not valid Protobuf, or an import is missing
    :raises ImportError: grpcio-tools is missing, for one that is text; or the package that has a file of Google's
    """
    if schema.kind != PROTOBUF:
        raise SchemaError(f"the schema is of {schema.kind}, not of Protobuf")
    imports = tuple((name, one.text) for name, one in needed.items())
    found = [_descriptor(name, text) for name, text in (*imports, ("", schema.text))]
    if None in found:
        return of_set(compile_schema(imports, schema.text))
    return ProtoFile(_with_known(found))


def of_set(data: bytes) -> ProtoFile:
    """Return the last file of a descriptor set, as `protoc --include_imports --descriptor_set_out` writes it.

    :raises SchemaError: the bytes are none, or a file is missing that one of them imports
    :raises ImportError: a file of Google's is missing, and the package that has it
    """
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        found = list(descriptor_pb2.FileDescriptorSet.FromString(data).file)
    except DecodeError as error:
        raise SchemaError("the descriptor file is none: let protoc write it, with --include_imports") from error
    if not found:
        raise SchemaError("the descriptor file has no file in it")
    return ProtoFile(_with_known(found))


def _descriptor(name: str, text: str) -> Any:
    """Return the descriptor of a file from base64; None if the text is none.

    :param name: by which others import it; "" for the one that it has itself
    """
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return None
    found.name = name or found.name or _MAIN
    return found


def _with_known(descriptors: list[Any]) -> list[Any]:
    """Return descriptors, behind the well-known files that they import and lack.

    :raises SchemaError: they import a file that is missing
    :raises ImportError: the package is missing that has it
    """
    there = {one.name for one in descriptors}
    known: list[Any] = []

    def add(names: Sequence[str]) -> None:
        for name in names:
            if name in there:
                continue
            there.add(name)
            found = known_file(name)
            if found is None:
                raise SchemaError(_missing(name))
            add(found.dependency)
            known.append(found)

    for descriptor in descriptors:
        add(descriptor.dependency)
    return [*known, *descriptors]


def _missing(name: str) -> str:
    return (
        f"the schema imports {name!r}, but has no reference of that name, and Confluent's serializers do not know the file: "
        "register the schema with such a reference, or give descriptor_file, which protoc writes with --include_imports"
    )


@lru_cache(_COMPILED_MAX)
def compile_schema(imports: tuple[tuple[str, str], ...], text: str) -> bytes:
    """Return the descriptor set of a file with those that it imports, by a process of protoc: once, as each task asks again.

    :param imports: the name and the text of each, or its descriptor in base64
    :param text: of the file itself, or its descriptor
    :raises SchemaError: they have errors
    :raises ImportError: protoc is not there, or the package that has a file of Google's
    """
    try:
        import grpc_tools
    except ImportError as error:
        # No SchemaError: the schema may be right, and other Pythons can read it.
        raise ImportError(
            "the schema is Protobuf's text, which needs protoc: install grpcio-tools (the extra formats), or give "
            "descriptor_file, which protoc has written",
            name="grpc_tools",
        ) from error
    main = _MAIN
    while main in dict(imports):
        main = f"_{main}"
    with tempfile.TemporaryDirectory() as directory:
        root, known, out = (Path(directory, name) for name in ("files", "known", "out"))
        # protoc takes a file of the root first, then one of Google's, then a descriptor.
        google = [Path(str(files(grpc_tools) / "_proto")), *filter(None, [google_sources()])]
        known.write_bytes(_put(root, (*imports, (main, text)), google))
        places = [f"--proto_path={one}" for one in (root, *google)]
        said = _protoc(
            *places, f"--descriptor_set_in={known}", "--include_imports", f"--descriptor_set_out={out}", main
        )
        if not out.exists():
            raise _refused(said.replace(f"{root}/", ""))
        return out.read_bytes()


def _protoc(*arguments: str) -> str:
    """Run protoc, and return what it has to say about an error."""
    done = subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", *arguments],
        # It finds grpcio-tools where this Python did, which Spark may have added to the path.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=COMPILE_S,
        check=False,
    )
    return done.stderr


def _put(root: Path, named: Sequence[tuple[str, str]], google: Sequence[Path]) -> bytes:
    """Write texts as files of their names; return the descriptors, and those of Confluent's files, as a set.

    :param google: directories with files that protoc prefers to descriptors
    :raises SchemaError: a name is not that of a file, or a descriptor cannot be used beside texts
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    names, found = {name for name, _ in named}, FileDescriptorSet()
    found.file.extend(one for one in confluent_files() if one.name not in names)
    for name, text in named:
        path = Path(root, name)
        if not _is_below(path, root):
            raise SchemaError(f"the schema imports {name!r}, which is no name of a file below another")
        described = _descriptor(name, text)
        if described is None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode(errors="replace"))
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise SchemaError(
                    f"the schema imports {name!r}, but the name of another import makes a part of that a directory, or its "
                    "directory a file: register one of them by another name"
                ) from None
            continue
        if any(Path(one, name).is_file() for one in google):
            raise SchemaError(
                f"the schema imports {name!r}, which is a descriptor, and another file of it is text: register all in one "
                "form"
            )
        found.file.append(described)
    root.mkdir(exist_ok=True)
    return bytes(found.SerializeToString())


def _is_below(path: Path, root: Path) -> bool:
    """Return whether a path is one of a file below a directory, by a name that the system takes."""
    try:
        parts = [len(os.fsencode(part)) for part in path.relative_to(root).parts]
        fits = max(parts, default=0) <= _NAME_MAX and sum(parts) + len(parts) <= _PATH_MAX
        return fits and root.resolve() in path.resolve().parents
    except ValueError:  # a null byte, half of a character, or an absolute name
        return False


def _refused(said: str) -> SchemaError:
    """Return the error about a schema that protoc refuses.

    :param said: what protoc has written
    :raises ImportError: it lacks a file of Google's, and the package that has it is not installed
    """
    said = _LOGGED.sub("", said)
    missing = _NOT_FOUND.search(said)
    if missing is None:
        return SchemaError(f"protoc refuses the schema: {said.strip()[-500:]}")
    check_installed(missing[1])
    return SchemaError(_missing(missing[1]))
