"""Names of PyKafka 2 besides the documented ones: each of them is there, or docs/migrating.md says that it is gone.

`tests/pykafka2_names.json` has the names of 2.8.0, and those that only earlier releases had; test_documented_api.py looks after
documented ones.
"""

from __future__ import annotations

import importlib
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import pykafka.protocol
from pykafka.common import CompressionType
from pykafka.exceptions import ProduceFailureError
from tests.support.oldinventory import kind_of, members_of, parameters_of

ROOT = Path(__file__).parents[2]
OLD: dict[str, Any] = json.loads((ROOT / "tests" / "pykafka2_names.json").read_text())
MODULES: dict[str, dict[str, dict[str, str]]] = OLD["2.8.0"]
EARLIER: dict[str, str] = OLD["earlier"]
PROTOCOL = sorted(name for name in MODULES if name.startswith("pykafka.protocol."))
#: Names that are something better here: what 2.8.0 has without gevent, lz4 and snappy.
OTHER_KIND = {"GEventHandler", "gevent", "snappy", "encode_lz4", "lz4f", "xxhash"}
#: Classes whose arguments other tests compare: test_documented_api.py has the documented ones.
OTHER_PARAMETERS = {"Message", "OwnedPartition", "PartitionFetchRequest"}


def listed() -> set[str]:
    """Return what docs/migrating.md names in the first column of its table of names that are gone."""
    text = (ROOT / "docs" / "migrating.md").read_text()
    rows = re.findall(r"^\| (.*?) \| .* \|$", text.split("| name of 2.8 | instead |")[1], re.MULTILINE)
    return {name.removesuffix("()") for row in rows for name in re.findall(r"`([^`]+)`", row)}


GONE = listed()


def is_listed(*path: str) -> bool:
    """Return whether a name is listed, with its module or class, or alone."""
    return any(".".join(path[start:]) in GONE for start in range(len(path)))


def had(module: str) -> Iterator[tuple[str, str]]:
    """Yield each name that a module had, and its kind; "" for earlier releases."""
    for kind, names in MODULES.get(module, {}).get("names", {}).items():
        for name in names.split():
            yield name, kind
    for name in EARLIER.get(module, "").split():
        yield name, ""


@pytest.mark.parametrize("module", sorted({*MODULES, *EARLIER}))
def test_names_of_a_module(module: str) -> None:
    ours = importlib.import_module(module)
    parts = module.removeprefix("pykafka.").split(".")
    names = dict(had(module))
    lost = {name for name in names if not hasattr(ours, name) and not is_listed(*parts, name)}
    assert not lost, f"{module} has lost names, and docs/migrating.md does not say so"
    for name, kind in names.items():
        if kind and hasattr(ours, name) and not {name, f"{module}.{name}"} & OTHER_KIND:
            assert kind_of(getattr(ours, name)) == kind, f"{module}.{name}"


def own_classes() -> list[Any]:
    return [
        pytest.param(module, name, members.split(), id=f"{module}.{name}")
        for module, content in MODULES.items()
        for name, members in content["members"].items()
        if hasattr(importlib.import_module(module), name)
    ]


@pytest.mark.parametrize(("module", "name", "members"), own_classes())
def test_members_of_a_class(module: str, name: str, members: list[str]) -> None:
    ours = getattr(importlib.import_module(module), name)
    parts = module.removeprefix("pykafka.").split(".")
    missing = set(members) - set(members_of(ours))
    lost = {member for member in missing if not is_listed(*parts, name, member)}
    assert not lost, f"{module}.{name} has lost members, and docs/migrating.md does not say so"


@pytest.mark.parametrize("module", MODULES)
def test_parameters(module: str) -> None:
    ours = importlib.import_module(module)
    for name, parameters in MODULES[module]["parameters"].items():
        if name.startswith("_") or not hasattr(ours, name):
            continue
        names = [parameter.rstrip("=") for parameter in parameters.split()]
        found = parameters_of(getattr(ours, name))
        if found is not None and name not in OTHER_PARAMETERS:
            assert [parameter.rstrip("=") for parameter in found][: len(names)] == names, f"{module}.{name}"


def test_what_is_listed_is_gone() -> None:
    """A name that came back is no longer listed."""
    names = {f"{module}.{name}".removeprefix("pykafka.") for module in MODULES for name, _ in had(module)}
    members = {
        f"{module}.{name}.{member}".removeprefix("pykafka.")
        for module, content in MODULES.items()
        for name, found in content["members"].items()
        for member in found.split()
    }
    known = {f"pykafka.{name}" for name in names | members}
    found = {name: {one for one in known if one == name or one.endswith(f".{name}")} for name in GONE}
    stale = {name for name, paths in found.items() if paths and all(resolves(one) for one in paths)}
    assert not stale, "docs/migrating.md lists names that are there"


def resolves(path: str) -> bool:
    """Return whether "pykafka.module.name" or "pykafka.module.Class.member" is there."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for place, name in enumerate(parts[cut:]):
            if isinstance(value, type) and place:
                return name in members_of(value)
            if not hasattr(value, name):
                return False
            value = getattr(value, name)
        return True
    return False


# -- the modules of pykafka.protocol -----------------------------------------------------------------------------------


@pytest.mark.parametrize("module", PROTOCOL)
def test_modules_of_the_protocol_have_the_same_classes(module: str) -> None:
    ours = importlib.import_module(module)
    assert getattr(pykafka.protocol, module.rpartition(".")[2]) is ours
    shared = [name for name in MODULES[module]["names"]["class"].split() if hasattr(pykafka.protocol, name)]
    assert shared
    for name in shared:
        if hasattr(ours, name):
            assert getattr(ours, name) is getattr(pykafka.protocol, name)


def test_a_module_of_the_protocol_can_be_patched_and_pickled() -> None:
    from pykafka.protocol import fetch
    from pykafka.protocol.offset import OffsetPartitionResponse

    original = fetch.FetchRequest
    with mock.patch("pykafka.protocol.fetch.FetchRequest") as patched:
        assert fetch.FetchRequest is patched
    assert fetch.FetchRequest is original
    # what 2.8.0 has pickled names its module
    answer = pickle.loads(b"cpykafka.protocol.offset\nOffsetPartitionResponse\n((lI5\naI0\ntR.")
    assert answer == OffsetPartitionResponse([5], 0)
    namespace: dict[str, Any] = {}
    exec("from pykafka.protocol.offset_commit import *", namespace)
    assert namespace["OffsetFetchRequestV2"] is pykafka.protocol.OffsetFetchRequestV2


#: Message(b"v", partition_key=b"k", offset=3, partition_id=1), as 2.8.0 pickles it, by pickle's protocol.
MESSAGE = {
    2: (
        b"\x80\x02cpykafka.protocol.message\nMessage\nq\x00)\x81q\x01N}q"
        b"\x02(X\x10\x00\x00\x00compression_typeq\x03K\x00X\r\x00\x00\x00partition_key"
        b"q\x04c_codecs\nencode\nq\x05X\x01\x00\x00\x00kq\x06X\x06\x00\x00\x00latin1q\x07\x86q\x08R"
        b"q\tX\x05\x00\x00\x00valueq\nh\x05X\x01\x00\x00\x00vq\x0bh\x07\x86q\x0cRq\rX\x06\x00\x00\x00offsetq\x0e"
        b"K\x03X\x0c\x00\x00\x00partition_idq\x0fK\x01X\t\x00\x00\x00partitionq\x10NX\x0f\x00\x00\x00"
        b"produce_attemptq\x11K\x00X\x11\x00\x00\x00delivery_report_qq\x12NX"
        b"\x10\x00\x00\x00protocol_versionq\x13K\x00X\t\x00\x00\x00timestampq\x14Nu\x86q\x15"
        b"b."
    ),
    4: (
        b"\x80\x04\x95\xdc\x00\x00\x00\x00\x00\x00\x00\x8c\x18pykafka.protocol.message\x94\x8c\x07Messa"
        b"ge\x94\x93\x94)\x81\x94N}\x94(\x8c\x10compression_type\x94K\x00\x8c\rpartition_"
        b"key\x94C\x01k\x94\x8c\x05value\x94C\x01v\x94\x8c\x06offset\x94K\x03\x8c\x0cpartition_id"
        b"\x94K\x01\x8c\tpartition\x94N\x8c\x0fproduce_attempt\x94K\x00\x8c\x11deliver"
        b"y_report_q\x94N\x8c\x10protocol_version\x94K\x00\x8c\ttimestamp\x94"
        b"Nu\x86\x94b."
    ),
}


@pytest.mark.parametrize("protocol", MESSAGE)
def test_a_message_that_2_8_0_has_pickled(protocol: int) -> None:
    message = pickle.loads(MESSAGE[protocol])
    assert isinstance(message, pykafka.protocol.Message)
    found = (message.value, message.partition_key, message.offset, message.partition_id, message.timestamp)
    assert found == (b"v", b"k", 3, 1, None)
    assert message.headers is None
    assert pickle.loads(pickle.dumps(message)).value == b"v"


# -- how they are found ------------------------------------------------------------------------------------------------


def test_imported_names_are_what_they_were() -> None:
    names = ["producer", "cluster", "common", "simpleconsumer", "utils.compat"]
    producer, cluster, common, simpleconsumer, compat = (old_module(name) for name in names)
    assert producer.CompressionType is CompressionType
    assert producer.ProduceFailureError is ProduceFailureError
    assert cluster.log.name == "pykafka.cluster"
    assert simpleconsumer.EPOCH is common.EPOCH
    assert common.EPOCH.isoformat() == "1970-01-01T00:00:00"
    with pytest.raises(compat.Empty):
        compat.Queue().get_nowait()
    with compat.Semaphore(1):
        pass
    with pytest.raises(ValueError, match="caught"):
        try:
            raise ValueError("caught")
        except ValueError:
            producer.reraise(*sys.exc_info())


def test_a_star_import_takes_the_names_of_the_module() -> None:
    namespace: dict[str, Any] = {}
    exec("from pykafka.partitioners import *", namespace)
    assert {"HashingPartitioner", "RandomPartitioner"} <= namespace.keys()
    assert "FetchRequest" not in namespace


def old_module(name: str) -> Any:
    """Return a module, whose old names checkers do not know."""
    return importlib.import_module(f"pykafka.{name}")


@pytest.mark.parametrize("module", ["pykafka.producer", "pykafka.protocol.fetch", "pykafka.handlers", "pykafka.common"])
def test_names_that_never_were(module: str) -> None:
    ours = importlib.import_module(module)
    for name in ("Nothing", "nothing", "_nothing", "__nothing__"):
        with pytest.raises(AttributeError, match=f"module '{module}' has no attribute '{name}'"):
            getattr(ours, name)


def test_old_names_are_not_loaded_unless_they_are_asked_for() -> None:
    program = """
import sys
from pykafka import *
from pykafka import Broker, Cluster, connection, handlers, utils
import pykafka.protocol
assert not hasattr(pykafka.producer, "__wrapped__")
print(*[name for name in sys.modules if name in OLD])
from pykafka.producer import CompressionType
print(*[name for name in sys.modules if name in OLD])
"""
    own = ["pykafka.compat.attributes", "pykafka.compat.names"]
    modules = [*own, *(name for name in PROTOCOL if name != "pykafka.protocol.message")]
    found = subprocess.run(
        [sys.executable, "-c", program.replace("OLD", repr(modules))], capture_output=True, text=True, check=False
    )
    assert found.stdout.splitlines() == ["", "pykafka.compat.names"], found.stderr
