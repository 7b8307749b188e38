"""`Remote`: the methods of a fake cluster and of its faults by name, with arguments and results as JSON has them.

They are made from the signatures: a new method of `FakeCluster` is a control, if JSON can express its arguments.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pykafka.protocol.message import Message
from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.faults import FakeClusterError, Fault, Hold, Received
from pykafka.testing.names import api_key, api_name, error_code
from pykafka.utils.json_contents import json_contents

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler
    from pykafka.testing.placed import PlacedCluster

#: How many faults are known by their numbers; the oldest are forgotten.
FAULTS_MAX: Final = 1000
#: What JSON can express: by annotation, without what is in brackets.
_TYPES: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "str": ((str,), "a text"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "None": ((type(None),), "null"),
    "Any": ((str, int, float, bool, list, dict, type(None)), "any value"),
    "Sequence": ((list,), "a list"),
    "Mapping": ((dict,), "an object"),
    "ApiName": ((str, int), "the name or key of an API"),
    "ErrorName": ((str, int), "the name or code of an error"),
}
_REQUIRED: Final = inspect.Parameter.empty
_MANY: Final = inspect.Parameter.VAR_POSITIONAL


class Field(NamedTuple):
    """A parameter of a control.

    :param types: keys of `_TYPES`
    :param default: `_REQUIRED` if it has to be given
    :param is_many: whether it takes the values of a list
    """

    types: list[str]
    default: Any = _REQUIRED
    is_many: bool = False

    @property
    def text(self) -> str:
        """The values that it takes, in words."""
        return ("a list of " if self.is_many else "") + " or ".join(_TYPES[name][1] for name in self.types)

    def check(self, value: Any) -> None:
        """Check a value.

        :raises ValueError: the field cannot have it
        """
        if self.is_many and isinstance(value, list):
            for one in value:
                self._replace(is_many=False).check(one)
        elif self.is_many or type(value) not in [kind for name in self.types for kind in _TYPES[name][0]]:
            raise ValueError(f"{value!r} is not {self.text}")
        elif isinstance(value, (int, float)) and not -(2**63) <= value < 2**63:
            raise ValueError(f"{value!r} is too large")
        elif "ApiName" in self.types and value is not None:
            api_key(value)
        elif "ErrorName" in self.types:
            error_code(value)


class Control(NamedTuple):
    """A method as a control.

    :param fn: the function
    :param of: the class that has it
    :param fields: by name
    :param is_open: whether it takes other fields, too
    :param is_read: whether it changes nothing
    """

    fn: Callable[..., Any]
    of: type
    fields: dict[str, Field]
    is_open: bool
    is_read: bool

    def check(self, given: Mapping[str, Any]) -> None:
        """Check the arguments.

        :raises ValueError: a field is wrong, missing or unknown
        """
        for name, value in given.items():
            if name in self.fields:
                try:
                    self.fields[name].check(value)
                except ValueError as error:
                    raise ValueError(f"field {name!r}: {error}") from None
            elif not self.is_open:
                raise ValueError(f"there is no field {name!r}: {', '.join(self.fields) or 'there are none'}")
        for name, field in self.fields.items():
            if field.default is _REQUIRED and name not in given:
                raise ValueError(f"field {name!r} is missing: {field.text}")


def _control(fn: Callable[..., Any], of: type) -> Control | None:
    """Return a method as a control; None if JSON cannot express what it needs."""
    signature = inspect.signature(fn)
    fields = {"id": Field(["int"])} if issubclass(of, Fault) else {}
    is_open = False
    for name, parameter in itertools.islice(signature.parameters.items(), 1, None):
        # Annotations are text. " | " within brackets is of an element.
        words = [word.partition("[")[0] for word in re.split(r" \| (?![^\[]*\])", parameter.annotation)]
        types = [word for word in words if word in _TYPES]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            is_open = True
        elif types not in ([], ["None"]):
            is_many = parameter.kind is _MANY
            fields[name] = Field(types, [] if is_many else parameter.default, is_many)
        elif parameter.default is _REQUIRED:
            return None
    return Control(fn, of, fields, is_open, signature.return_annotation not in ("None", "Fault", "Hold"))


@cache
def controls() -> dict[str, Control]:
    """Return all controls by name."""
    found = {"reset": Control(Remote.reset, Remote, {}, is_open=False, is_read=False)}
    for of in (FakeCluster, Fault, Hold):
        for name, fn in inspect.getmembers(of, inspect.isfunction):
            control = None if name.startswith("_") or name in ("close", *found) else _control(fn, of)
            if control is not None:
                found[name] = control
    return found


class Remote:
    """The controls of one cluster.

    :param cluster: that was started
    :param handler: makes the lock
    """

    def __init__(self, cluster: PlacedCluster, handler: Handler) -> None:
        self._cluster = cluster
        self._lock = handler.Lock()
        self._is_closed = False
        self._faults: dict[int, Fault] = {}
        self._numbers = itertools.count(1)

    def close(self) -> None:
        """Close the cluster, for good."""
        with self._lock:
            self._is_closed = True
            self._cluster.close()

    def reset(self) -> None:
        """Start the cluster anew at the same ports, with its first topics and nothing else: no records, groups or faults."""
        with self._lock:
            if self._is_closed:
                raise FakeClusterError("the cluster has been closed")
            try:
                self._cluster.close()
            finally:  # also if it raises what a broker has failed by
                self._faults.clear()
                self._cluster = self._cluster.again()

    def call(self, control: Control, given: Mapping[str, Any]) -> Any:
        """Call a control; return its result as JSON can express it.

        :raises ValueError: an argument is wrong
        :raises FakeClusterError: it cannot be done
        """
        control.check(given)
        if control.of is Remote:
            return control.fn(self)
        arguments = dict(given)
        many = [value for name, field in control.fields.items() if field.is_many for value in arguments.pop(name, ())]
        with self._lock:
            owner: object = self._cluster
            if issubclass(control.of, Fault):
                owner = self._faults.get(arguments.pop("id"))
                if not isinstance(owner, control.of):
                    raise ValueError(f"field 'id': {given['id']} is the number of no {control.of.__name__.lower()}")
        first = [arguments.pop(name) for name in control.fields if many and name in arguments]
        return self._data(control.fn(owner, *first, *many, **arguments))

    def describe(self) -> dict[str, Any]:
        """Return where the brokers are, and all controls with their fields."""
        described: dict[str, Any] = {}
        for name, control in controls().items():
            fields = {
                key: {"type": field.text} | ({} if field.default is _REQUIRED else {"default": field.default})
                for key, field in control.fields.items()
            }
            about = (inspect.getdoc(control.fn) or "").splitlines()
            described[name] = {"method": "GET" if control.is_read else "POST", "fields": fields, "about": about}
        with self._lock:
            return {"hosts": self._cluster.hosts, "broker_ids": self._cluster.broker_ids, "controls": described}

    def _data(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._data(one) for one in value]
        if isinstance(value, Fault):
            named = {"api": api_name(value.key), "broker": value.broker, "met": value.met, "left": value.left}
            return {"id": self._number(value), "kind": type(value).__name__.lower(), **named}
        if isinstance(value, Received):
            return {**value._asdict(), "api": value.api}
        if isinstance(value, Message):
            place = {"partition": value.partition_id, "offset": value.offset, "timestamp_ms": value.timestamp}
            return {**place, **json_contents(value.partition_key, value.value, value.headers)}
        return value

    def _number(self, fault: Fault) -> int:
        with self._lock:
            for number, known in self._faults.items():
                if known is fault:
                    return number
            number = next(self._numbers)
            self._faults[number] = fault
            if len(self._faults) > FAULTS_MAX:
                del self._faults[next(iter(self._faults))]
            return number
