"""Protobuf: schemas as descriptors, from text by protoc, or from descriptors that a registry or a file has."""

from __future__ import annotations

import base64
import os
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

#: The name of the file that a schema of a subject is, for protoc.
_MAIN = "schema.proto"
#: How long protoc may take (s).
COMPILE_S = 60
#: So many compiled schemas are kept in a process.
_COMPILED_MAX = 64


class ProtoFile:
    """One file of Protobuf, with those that it imports.

    :param descriptors: FileDescriptorProto each, behind those that it imports; the last one is the file
    :raises SchemaError: an import is missing
    """

    def __init__(self, descriptors: Sequence[Any]) -> None:
        from google.protobuf import descriptor_pool

        self._pool = descriptor_pool.DescriptorPool()
        try:
            for one in descriptors:
                self._pool.Add(one)
            self._file = self._pool.FindFileByName(descriptors[-1].name)
        except (KeyError, TypeError) as error:
            raise SchemaError(f"the schema is none of Protobuf, or misses what it imports: {error}") from error
        #: Full names of the file's messages, by their paths: number in the file, then in each message around.
        self._paths: dict[tuple[int, ...], str] = {}
        #: The same as some clients count: entries of maps, which no text declares, are messages of a descriptor, too.
        self._counted: dict[tuple[int, ...], str] = {}
        package = self._file.package
        self._note(descriptors[-1].message_type, self._paths, (), package, lambda one: not one.options.map_entry)
        self._note(descriptors[-1].message_type, self._counted, (), package, lambda one: True)

    def _note(
        self,
        messages: Any,
        paths: dict[tuple[int, ...], str],
        around: tuple[int, ...],
        prefix: str,
        counts: Callable[[Any], bool],
    ) -> None:
        for index, one in enumerate(filter(counts, messages)):
            name = f"{prefix}.{one.name}" if prefix else one.name
            paths[(*around, index)] = name
            self._note(one.nested_type, paths, (*around, index), name, counts)

    @property
    def messages(self) -> list[str]:
        """The full names of the file's messages, outside of others."""
        return [name for path, name in self._paths.items() if len(path) == 1]

    def names_at(self, path: Sequence[int]) -> list[str]:
        """Return the full names of the messages that a path may mean, the likelier one first.

        :param path: number of the message in the file, then in each message around it
        :raises SchemaError: there is none
        """
        found = [paths[tuple(path)] for paths in (self._paths, self._counted) if tuple(path) in paths]
        if not found:
            raise SchemaError(f"the schema has no message at {tuple(path)}")
        return found

    def path_of(self, name: str) -> tuple[int, ...]:
        """Return the path of a message by its full name.

        :raises SchemaError: it is not in this file
        """
        for path, one in self._paths.items():
            if one == name:
                return path
        raise SchemaError(
            f"{name} is not in the schema itself, but in what it imports: name one of {', '.join(self.messages)}"
        )

    def named(self, name: str) -> Any:
        """Return the descriptor of a message by its name; it may lack the package where that is the file's.

        :raises SchemaError: there is none
        """
        for full in (name, f"{self._file.package}.{name}"):
            try:
                return self._pool.FindMessageTypeByName(full)
            except KeyError:
                continue
        raise SchemaError(f"the schema has no message {name!r}; in it are {', '.join(self.messages)}")


def compiled(schema: Schema, needed: Mapping[str, Schema]) -> ProtoFile:
    """Return the file that a schema is.

    :param schema: text, or a descriptor in base64
    :param needed: what it imports, by the names that it imports them by
    :raises SchemaError: it is none of Protobuf
    :raises ImportError: grpcio-tools is missing, for one that is text
    """
    if schema.kind != PROTOBUF:
        raise SchemaError(f"the schema is of {schema.kind}, not of Protobuf")
    main = _descriptor(schema.text)
    if main is None:
        return of_set(_compile(tuple((name, one.text) for name, one in needed.items()), schema.text))
    rest = []
    for name, one in needed.items():
        found = _descriptor(one.text)
        if found is None:
            raise SchemaError(
                f"the schema is a descriptor, and {name!r}, which it imports, is text: register both in one form"
            )
        found.name = name
        rest.append(found)
    return ProtoFile(_with_known([*rest, main]))


def of_set(data: bytes) -> ProtoFile:
    """Return the last file of a descriptor set, as `protoc --include_imports --descriptor_set_out` writes it.

    :raises SchemaError: the bytes are none
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


def _descriptor(text: str) -> Any:
    """Return the descriptor of a file from base64; None if the text is none."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return None
    found.name = found.name or _MAIN
    return found


def _with_known(descriptors: list[Any]) -> list[Any]:
    """Return descriptors with those of Google's own types that they import and lack."""
    from google.protobuf import (  # noqa: F401 - what is imported is in the default pool
        any_pb2,
        api_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        source_context_pb2,
        struct_pb2,
        timestamp_pb2,
        type_pb2,
        wrappers_pb2,
    )
    from google.protobuf.descriptor_pool import Default

    there = {one.name for one in descriptors}
    known: list[Any] = []

    def add(names: Sequence[str]) -> None:
        for name in names:
            if name in there or not name.startswith("google/protobuf/"):
                continue
            there.add(name)
            found = descriptor_pb2.FileDescriptorProto()
            Default().FindFileByName(name).CopyToProto(found)
            add(found.dependency)
            known.append(found)

    for one in descriptors:
        add(one.dependency)
    return [*known, *descriptors]


@lru_cache(_COMPILED_MAX)
def _compile(imports: tuple[tuple[str, str], ...], text: str) -> bytes:
    """Return the descriptor set of a file with those that it imports, by a process of protoc: once, as each task asks anew.

    :param imports: the name and the text of each
    :param text: of the file itself
    :raises SchemaError: they have errors
    :raises ImportError: protoc is not there
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
    with tempfile.TemporaryDirectory() as directory:
        main = _MAIN
        while main in dict(imports):
            main = f"_{main}"
        for name, one in (*imports, (main, text)):
            path = Path(directory, name)
            if "\0" in name or Path(directory).resolve() not in path.resolve().parents:
                raise SchemaError(f"the schema imports {name!r}, which is no name of a file below another")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(one.encode(errors="replace"))
        out = Path(directory, "descriptors")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={directory}"),
                f"--proto_path={files(grpc_tools) / '_proto'}",
                *("--include_imports", f"--descriptor_set_out={out}", main),
            ],
            # It finds grpcio-tools where this Python did, which Spark may have added to the path.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMPILE_S,
            check=False,
        )
        if done.returncode:
            raise SchemaError(f"protoc refuses the schema: {done.stderr.replace(f'{directory}/', '').strip()[-500:]}")
        return out.read_bytes()
