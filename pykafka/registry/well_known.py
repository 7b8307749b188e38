"""Files of Protobuf that schemas import without a reference: Confluent's serializers and registry have them built in."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

#: Google's files, by the directories of the packages protobuf and googleapis-common-protos.
_GOOGLE = re.compile(r"google/(protobuf|protobuf/compiler|type|api|rpc)/[a-z0-9_]+\.proto")
#: The package that has Google's files beyond those of protobuf itself, and a module of it.
_PACKAGE, _TYPES = "googleapis-common-protos", "google.type"
#: The number of the options that Confluent adds to files, messages, fields and enums.
_META = 1088
#: By the names of FieldDescriptorProto.Type.
_STRING, _BYTES, _INT32, _UINT32 = 9, 12, 5, 13


def known_file(name: str) -> Any:
    """Return the descriptor of a file; None if it is not known here.

    :param name: by which schemas import it
    :raises ImportError: it is one of Google's, and their package is not installed
    """
    from google.protobuf import descriptor_pb2
    from google.protobuf.descriptor_pool import Default

    if name in _confluent():
        return _confluent()[name]
    if not _GOOGLE.fullmatch(name):
        return None
    found = descriptor_pb2.FileDescriptorProto()
    try:  # a program may have made its own of that name, and the pool has one only
        Default().FindFileByName(name).CopyToProto(found)
    except KeyError:
        module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
        try:
            import_module(module).DESCRIPTOR.CopyToProto(found)
        except ModuleNotFoundError as error:
            if error.name not in (module, module.rpartition(".")[0]):
                raise
            check_installed(name)
            return None
    return found


def check_installed(name: str) -> None:
    """Check that the package is here that has a file of Google's.

    :param name: by which schemas import it
    :raises ImportError: it is not
    """
    if _GOOGLE.fullmatch(name) and not name.startswith("google/protobuf/") and google_sources() is None:
        # No SchemaError: the schema may be right, and other Pythons can read it.
        raise ImportError(
            f"the schema imports {name}, which the package {_PACKAGE} has: install it (the extra formats)", name=_TYPES
        )


def google_sources() -> Path | None:
    """Return the directory below which Google's files lie as text; None if their package is not installed."""
    try:
        spec = find_spec(_TYPES)
    except ModuleNotFoundError:
        return None
    places = () if spec is None else spec.submodule_search_locations or ()
    return next((Path(place).parents[1] for place in places if Path(place, "money.proto").is_file()), None)


def confluent_files() -> list[Any]:
    """Return the descriptors of Confluent's own files."""
    return list(_confluent().values())


@cache
def _confluent() -> dict[str, Any]:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    made = [
        _meta(),
        _type("decimal", ("value", _BYTES), ("precision", _UINT32), ("scale", _INT32)),
        _type("variant", ("metadata", _BYTES), ("value", _BYTES)),
        # Its place in schemas of clients other than Java's.
        FileDescriptorProto(
            name="confluent/types/decimal.proto",
            syntax="proto3",
            dependency=["confluent/type/decimal.proto"],
            public_dependency=[0],
        ),
    ]
    return {one.name: one for one in made}


def _type(name: str, *fields: tuple[str, int]) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    return FileDescriptorProto(
        name=f"confluent/type/{name}.proto",
        package="confluent.type",
        syntax="proto3",
        message_type=[_message(name.capitalize(), *fields)],
    )


def _meta() -> Any:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

    meta = _message("Meta", ("doc", _STRING))
    entry = meta.nested_type.add()
    entry.CopyFrom(_message("ParamsEntry", ("key", _STRING), ("value", _STRING)))
    entry.options.map_entry = True
    repeated, optional = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.LABEL_OPTIONAL
    message = FieldDescriptorProto.TYPE_MESSAGE
    meta.field.add(name="params", number=2, label=repeated, type=message, type_name=".confluent.Meta.ParamsEntry")
    meta.field.add(name="tags", number=3, label=repeated, type=FieldDescriptorProto.TYPE_STRING)
    meta.field.add(name="rules", number=4, label=repeated, type=message, type_name=".confluent.Rule")
    rule = _message("Rule", *((name, _STRING) for name in ("name", "doc", "expr", "sql")))
    made = FileDescriptorProto(
        name="confluent/meta.proto",
        package="confluent",
        syntax="proto3",
        dependency=["google/protobuf/descriptor.proto"],
        message_type=[meta, rule],
    )
    for name, options in (
        *(("file_meta", "File"), ("message_meta", "Message"), ("field_meta", "Field")),
        *(("enum_meta", "Enum"), ("enum_value_meta", "EnumValue")),
    ):
        extendee = f".google.protobuf.{options}Options"
        made.extension.add(
            name=name, number=_META, label=optional, type=message, type_name=".confluent.Meta", extendee=extendee
        )
    return made


def _message(name: str, *fields: tuple[str, int]) -> Any:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

    made = DescriptorProto(name=name)
    for number, (field, kind) in enumerate(fields, 1):
        made.field.add(
            name=field,
            number=number,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
            type=FieldDescriptorProto.Type.Name(kind),
        )
    return made
