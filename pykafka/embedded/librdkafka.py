"""The functions of librdkafka that the embedded cluster uses, by ctypes, with their C types declared."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_c_handle = ctypes.c_void_p
_PRODUCER = 0
_CONF_OK = 0

#: name -> (result, arguments); as in rdkafka.h and rdkafka_mock.h.
_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "rd_kafka_version_str": (ctypes.c_char_p, []),
    "rd_kafka_conf_new": (_c_handle, []),
    "rd_kafka_conf_set": (
        ctypes.c_int,
        [_c_handle, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t],
    ),
    "rd_kafka_new": (_c_handle, [ctypes.c_int, _c_handle, ctypes.c_char_p, ctypes.c_size_t]),
    "rd_kafka_destroy": (None, [_c_handle]),
    "rd_kafka_err2name": (ctypes.c_char_p, [ctypes.c_int]),
    "rd_kafka_err2str": (ctypes.c_char_p, [ctypes.c_int]),
    "rd_kafka_mock_cluster_new": (_c_handle, [_c_handle, ctypes.c_int]),
    "rd_kafka_mock_cluster_destroy": (None, [_c_handle]),
    "rd_kafka_mock_cluster_bootstraps": (ctypes.c_char_p, [_c_handle]),
    "rd_kafka_mock_topic_create": (ctypes.c_int, [_c_handle, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]),
    "rd_kafka_mock_topic_set_error": (None, [_c_handle, ctypes.c_char_p, ctypes.c_int]),
    "rd_kafka_mock_clear_request_errors": (None, [_c_handle, ctypes.c_int16]),
    "rd_kafka_mock_push_request_errors_array": (
        None,
        [_c_handle, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)],
    ),
    # Variadic: pairs of (error, milliseconds) follow.
    "rd_kafka_mock_broker_push_request_error_rtts": (
        ctypes.c_int,
        [_c_handle, ctypes.c_int32, ctypes.c_int16, ctypes.c_size_t],
    ),
    "rd_kafka_mock_broker_error_stack_cnt": (
        ctypes.c_int,
        [_c_handle, ctypes.c_int32, ctypes.c_int16, ctypes.POINTER(ctypes.c_size_t)],
    ),
    "rd_kafka_mock_broker_set_down": (ctypes.c_int, [_c_handle, ctypes.c_int32]),
    "rd_kafka_mock_broker_set_up": (ctypes.c_int, [_c_handle, ctypes.c_int32]),
    "rd_kafka_mock_broker_set_rtt": (ctypes.c_int, [_c_handle, ctypes.c_int32, ctypes.c_int]),
    "rd_kafka_mock_broker_set_rack": (ctypes.c_int, [_c_handle, ctypes.c_int32, ctypes.c_char_p]),
    "rd_kafka_mock_partition_set_leader": (
        ctypes.c_int,
        [_c_handle, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32],
    ),
    "rd_kafka_mock_partition_set_follower": (
        ctypes.c_int,
        [_c_handle, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32],
    ),
    "rd_kafka_mock_partition_set_follower_wmarks": (
        ctypes.c_int,
        [_c_handle, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64],
    ),
    "rd_kafka_mock_coordinator_set": (
        ctypes.c_int,
        [_c_handle, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int32],
    ),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [_c_handle, ctypes.c_int32]),
    "rd_kafka_mock_set_apiversion": (
        ctypes.c_int,
        [_c_handle, ctypes.c_int16, ctypes.c_int16, ctypes.c_int16],
    ),
    "rd_kafka_mock_start_request_tracking": (None, [_c_handle]),
    "rd_kafka_mock_stop_request_tracking": (None, [_c_handle]),
    "rd_kafka_mock_clear_requests": (None, [_c_handle]),
    "rd_kafka_mock_get_requests": (ctypes.POINTER(_c_handle), [_c_handle, ctypes.POINTER(ctypes.c_size_t)]),
    "rd_kafka_mock_request_destroy_array": (None, [ctypes.POINTER(_c_handle), ctypes.c_size_t]),
    "rd_kafka_mock_request_id": (ctypes.c_int32, [_c_handle]),
    "rd_kafka_mock_request_api_key": (ctypes.c_int16, [_c_handle]),
    "rd_kafka_mock_request_timestamp": (ctypes.c_int64, [_c_handle]),
}


def _candidates() -> list[str]:
    """Return the possible paths of the shared library: in confluent-kafka's wheel, then on the system."""
    found = []
    spec = find_spec("confluent_kafka")  # finds, and does not import: its own clients are not wanted here
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        # Where the wheel tools of Linux and of macOS put bundled libraries.
        for folder in (package.parent / "confluent_kafka.libs", package / ".dylibs"):
            found += sorted(str(path) for path in folder.glob("librdkafka*"))
    system = ctypes.util.find_library("rdkafka") if spec is not None and not found else None
    return found + ([system] if system else [])


@cache
def load() -> ctypes.CDLL:
    """Load librdkafka from the wheel of confluent-kafka.

    :raises ImportError: it is not there, or too old to have the functions of the mock cluster
    """
    paths = _candidates()
    if not paths:
        raise ImportError(
            "the embedded cluster needs librdkafka, which confluent-kafka brings: pip install 'confluent-kafka>=2.5'"
        )
    library = ctypes.CDLL(paths[0])
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise ImportError(
                f"{paths[0]} has no {name}: the embedded cluster needs confluent-kafka 2.5 or later "
                "(pip install --upgrade confluent-kafka)"
            )
        function.restype = result
        function.argtypes = arguments
    return library


def new_handle(settings: dict[str, str]) -> int:
    """Return a librdkafka client without brokers: the mock cluster lives inside one.

    :raises OSError: librdkafka refuses, with its own words
    """
    library = load()
    reason = ctypes.create_string_buffer(512)
    conf = library.rd_kafka_conf_new()
    for key, value in settings.items():
        if library.rd_kafka_conf_set(conf, key.encode(), value.encode(), reason, len(reason)) != _CONF_OK:
            raise OSError(f"librdkafka refuses {key}={value}: {reason.value.decode()}")
    handle = library.rd_kafka_new(_PRODUCER, conf, reason, len(reason))
    if not handle:
        raise OSError(f"librdkafka cannot start a client: {reason.value.decode()}; check the limit of open files")
    return int(handle)


def error_array(codes: Sequence[int]) -> ctypes.Array[ctypes.c_int]:
    """Return error codes as the C array that librdkafka reads."""
    return (ctypes.c_int * len(codes))(*codes)


def error_name(code: int) -> str:
    """Return librdkafka's name of an error code, without its prefix: 6 is NOT_LEADER_FOR_PARTITION."""
    name = load().rd_kafka_err2name(code)
    return name.decode() if name else str(code)


def error_text(code: int) -> str:
    """Return librdkafka's description of an error code."""
    text = load().rd_kafka_err2str(code)
    return text.decode() if text else str(code)


@cache
def error_codes() -> dict[str, int]:
    """Return the names of all errors of librdkafka, with their codes."""
    names = {}
    # Its own errors run down to -200, Kafka's up from 0; anything else is named ERR_<number>.
    for code in range(-200, 200):
        name = error_name(code)
        if not name.startswith("ERR_"):
            names[name] = code
    return names
