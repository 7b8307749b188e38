"""`Controls`: the methods of a fake cluster and of its faults by name, with JSON as arguments and results.

They are made from the signatures, so a new method of `FakeCluster` is a control, if JSON can express its arguments.
"""

from __future__ import annotations

import base64
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pykafka.exceptions import KafkaException
from pykafka.protocol.message import Message
from pykafka.testing.fakecluster import FakeCluster, FakeClusterError
from pykafka.testing.faults import Fault, Hold, Received
from pykafka.testing.names import api_key, api_keys, api_name, error_code

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler
    from pykafka.testing.placed import PlacedCluster

#: How many faults are known by their numbers; the oldest are forgotten.
FAULTS_MAX: Final = 1000
#: The types that JSON can express: by annotation, without what is in brackets.
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
#: Whole numbers beyond it cannot be sent to clients.
_INT_END: Final = 2**63


class UnknownControlError(KafkaException):
    """Raised for a control that does not exist."""


class Parameter(NamedTuple):
    """One parameter of a control.

    :param types: keys of `_TYPES`
    :param default: `inspect.Parameter.empty` if it has to be given
    """

    types: list[str]
    default: Any

    @property
    def text(self) -> str:
        """The values that it takes, in words."""
        return " or ".join(_TYPES[name][1] for name in self.types)

    def check(self, value: Any) -> None:
        """Check a value.

        :raises ValueError: it is none for this parameter
        """
        if type(value) not in [kind for name in self.types for kind in _TYPES[name][0]]:
            raise ValueError(f"{value!r} is not {self.text}")
        if isinstance(value, (int, float)) and not -_INT_END <= value < _INT_END:
            raise ValueError(f"{value!r} is too large")
        if "ApiName" in self.types and value is not None and api_key(value) not in api_keys().values():
            raise ValueError(f"no API has key {value}: the highest one is {max(api_keys().values())}")
        if "ErrorName" in self.types and not -(2**15) <= error_code(value) < 2**15:
            raise ValueError(f"no error has code {value}")


class Control(NamedTuple):
    """One control.

    :param fn: the method
    :param of: the class that has it
    :param parameters: by name
    :param is_open: whether it takes other fields, too
    :param is_read: whether it changes nothing
    """

    fn: Callable[..., Any]
    of: type
    parameters: dict[str, Parameter]
    is_open: bool
    is_read: bool

    def check(self, given: Mapping[str, Any]) -> None:
        """Check the arguments.

        :raises ValueError: a field is wrong, missing or unknown
        """
        for name, value in given.items():
            parameter = self.parameters.get(name)
            if parameter is not None:
                try:
                    parameter.check(value)
                except ValueError as error:
                    raise ValueError(f"field {name!r}: {error}") from None
            elif not self.is_open:
                raise ValueError(f"there is no field {name!r}: {', '.join(self.parameters) or 'there are none'}")
        for name, parameter in self.parameters.items():
            if parameter.default is inspect.Parameter.empty and name not in given:
                raise ValueError(f"field {name!r} is missing: {parameter.text}")

    def parsed(self, texts: Iterable[tuple[str, str]], parse: Callable[[str], Any]) -> dict[str, Any]:
        """Return the arguments of a query.

        :param texts: names and values
        :param parse: returns the value of JSON
        """
        given: dict[str, Any] = {}
        for name, text in texts:
            given[name] = text
            if name in self.parameters and self.parameters[name].types != ["str"]:
                try:
                    given[name] = parse(text)
                except ValueError:
                    continue  # a text, such as the name of an API
        return given


def _control(fn: Callable[..., Any], of: type) -> Control | None:
    """Return a method as a control; None if JSON cannot express what it needs."""
    signature = inspect.signature(fn)
    parameters = {"id": Parameter(["int"], inspect.Parameter.empty)} if issubclass(of, Fault) else {}
    is_open = False
    for name, parameter in itertools.islice(signature.parameters.items(), 1, None):
        # Annotations are text. " | " within brackets is of an element.
        types = [word.partition("[")[0] for word in re.split(r" \| (?![^\[]*\])", parameter.annotation)]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            is_open = True
        elif _TYPES.keys() >= {*types}:
            parameters[name] = Parameter(types, parameter.default)
        elif parameter.default is inspect.Parameter.empty:
            return None
    return Control(fn, of, parameters, is_open, signature.return_annotation not in ("None", "Fault", "Hold"))


@cache
def controls() -> dict[str, Control]:
    """Return all controls by name."""
    found: dict[str, Control] = {}
    for of in (FakeCluster, Fault, Hold):
        for name, fn in vars(of).items():
            if inspect.isfunction(fn) and not name.startswith("_") and name not in ("close", *found):
                control = _control(fn, of)
                if control is not None:
                    found[name] = control
    found["reset"] = Control(Controls.reset, Controls, {}, is_open=False, is_read=False)
    return found


def control_of(name: str) -> Control:
    """Return a control.

    :raises UnknownControlError: there is none with this name
    """
    if name not in controls():
        near = get_close_matches(name, controls()) or ["GET / lists all"]
        raise UnknownControlError(f"there is no control {name!r}; {' or '.join(near)}?".replace("all?", "all"))
    return controls()[name]


class Controls:
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
            self._cluster.close()
            self._faults.clear()
            self._cluster = self._cluster.again()

    def call(self, control: Control, given: Mapping[str, Any]) -> Any:
        """Call a control; return its result as JSON can express it.

        :raises ValueError: an argument is wrong
        :raises FakeClusterError: it cannot be done
        """
        control.check(given)
        arguments = dict(given)
        if control.of is Controls:
            return control.fn(self)
        with self._lock:
            owner: object = self._cluster
            if issubclass(control.of, Fault):
                owner = self._faults.get(arguments.pop("id"))
                if not isinstance(owner, control.of):
                    raise ValueError(f"field 'id': {given['id']} is the number of no {control.of.__name__.lower()}")
        return self._data(control.fn(owner, **arguments))

    def describe(self) -> dict[str, Any]:
        """Return where the brokers are, and all controls with their parameters."""
        described = {}
        for name, control in controls().items():
            parameters = {key: {"type": parameter.text} for key, parameter in control.parameters.items()}
            for key, parameter in control.parameters.items():
                if parameter.default is not inspect.Parameter.empty:
                    parameters[key]["default"] = parameter.default
            described[name] = {
                "method": "GET" if control.is_read else "POST",
                "parameters": parameters,
                "about": (inspect.getdoc(control.fn) or "").splitlines(),
            }
        with self._lock:
            return {"hosts": self._cluster.hosts, "broker_ids": self._cluster.broker_ids, "controls": described}

    def _data(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._data(one) for one in value]
        if isinstance(value, Fault):
            kind, number = type(value).__name__.lower(), self._number(value)
            named = {"api": api_name(value.key), "broker": value.broker, "met": value.met, "left": value.left}
            return {"id": number, "kind": kind, **named}
        if isinstance(value, Received):
            return {**value._asdict(), "api": value.api}
        return _record(value) if isinstance(value, Message) else value

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


def _record(record: Message) -> dict[str, Any]:
    return {
        "partition": record.partition_id,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        **_content("key", record.partition_key),
        **_content("value", record.value),
        "headers": [{"name": name, **_content("value", value)} for name, value in record.headers or ()],
    }


def _content(name: str, content: bytes | None) -> dict[str, str | None]:
    """Return bytes as text, or under another name in base64 if they are not UTF-8, as `kafka-tools consume` does."""
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}
