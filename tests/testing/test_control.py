"""The controls of a fake cluster by HTTP: what they do, what they refuse, and what no client can do to the port."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from pykafka.handlers.base import Stream
from pykafka.testing import FakeCluster, FakeClusterError, control_port
from pykafka.testing.control_port import ControlPort
from pykafka.testing.placed import NewTopic, Place, PlacedCluster
from pykafka.testing.remote import FAULTS_MAX, Remote, controls
from tests.testing.connection import LIMIT, connected, handler, produce

#: The newest version of Produce that names topics.
BY_NAME = 12
#: Arguments of controls, by parameter.
ARGUMENTS: dict[str, Any] = {
    "api": "Produce",
    "broker": 2,
    "error": "NOT_LEADER_OR_FOLLOWER",
    "highest": 3,
    "key": "k",
    "lowest": 0,
    "milliseconds": 1,
    "name": "new",
    "offset": 0,
    "partition": 0,
    "password": "p",
    "rack": "a",
    "rate": 1.5,
    "seconds": 1.5,
    "topic": "t",
    "user": "u",
}
#: What differs for one control.
OWN: dict[str, dict[str, Any]] = {"set_quota": {"key": "producer_byte_rate", "user": "u"}, "await_met": {"count": 0}}
#: What the cluster of these tests refuses: it has no ACLs and no users.
REFUSED = ("allow", "deny", "set_password")
#: What has to be so before a control can do something.
BEFORE: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "set_follower_watermarks": [("set_follower", {"topic": "t", "partition": 0, "broker": 2})],
}


class Served:
    """A cluster with its control port."""

    def __init__(self) -> None:
        self.cluster = PlacedCluster([Place("127.0.0.1", "127.0.0.1", 0)] * 2, [NewTopic("t", 2, 2)])
        self.remote = Remote(self.cluster, handler)
        self.port = ControlPort(self.remote, "127.0.0.1", 0, handler)
        self.host, self.number = self.port.url.removeprefix("http://").split(":")

    def close(self) -> None:
        self.port.close()
        self.remote.close()

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        connection = HTTPConnection(self.host, int(self.number), timeout=LIMIT)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def post(self, name: str, /, **fields: Any) -> tuple[int, Any]:
        return self.request("POST", f"/{name}", json.dumps(fields).encode())

    def done(self, name: str, /, **fields: Any) -> Any:
        """Return the result of a control that succeeds."""
        status, answer = self.post(name, **fields)
        assert status == 200, answer
        return answer

    def connect(self) -> Stream:
        return handler.connect(handler.resolve(self.host, int(self.number))[0], LIMIT)

    def raw(self, data: bytes) -> bytes:
        """Send bytes, and return all that comes until the port closes the connection."""
        stream, buffer, answer = self.connect(), bytearray(4096), b""
        try:
            stream.send([data], LIMIT)
            while count := stream.recv_into(buffer, LIMIT):
                answer += buffer[:count]
        finally:
            stream.close()
        return answer


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(control_port, "_DRAIN_S", 0.1)
    made = Served()
    yield made
    made.close()


def test_all_public_methods_are_controls_if_json_can_express_their_arguments() -> None:
    public = {name for name, _ in inspect.getmembers(FakeCluster, inspect.isfunction) if not name.startswith("_")}
    assert public - controls().keys() == {"close", "on_request", "on_answer"}
    assert controls().keys() - public == {"await_met", "end", "release", "reset"}


@pytest.mark.parametrize("name", controls())
def test_a_control_can_be_reached(served: Served, name: str) -> None:
    for earlier, fields in BEFORE.get(name, ()):
        served.done(earlier, **fields)
    fault = served.done("hold", api="Fetch")["id"]
    required = [key for key, one in controls()[name].fields.items() if one.default is inspect.Parameter.empty]
    fields = {key: fault if key == "id" else ARGUMENTS[key] for key in required}
    status, answer = served.post(name, **fields | OWN.get(name, {}))
    assert status == (409 if name in REFUSED else 200), answer


def test_the_list_says_what_a_control_takes(served: Served) -> None:
    status, listed = served.request("GET", "/")
    assert status == 200
    assert listed["hosts"] == served.cluster.hosts
    assert listed["controls"].keys() == controls().keys()
    fail = listed["controls"]["fail"]
    assert fail["method"] == "POST"
    assert fail["fields"]["api"] == {"type": "the name or key of an API"}
    assert fail["fields"]["times"] == {"type": "a whole number", "default": 1}
    assert "when" not in fail["fields"]
    assert (
        fail["about"][0]
        == "Make the next requests of an API fail: they are not carried out, and their answers have an error."
    )
    assert [name for name, one in listed["controls"].items() if one["method"] == "GET"] == [
        "has_topic",
        "leader",
        "pending",
        "records",
        "requests",
    ]


def test_a_fault_a_record_and_a_request_are_json(served: Served) -> None:
    served.done("track_requests")
    fault = served.done("fail", api="Produce", error="NOT_LEADER_OR_FOLLOWER", broker=1)
    assert fault == {"id": 1, "kind": "failure", "api": "Produce", "broker": 1, "met": 0, "left": 1}
    assert served.request("GET", "/pending?api=Produce") == (200, [fault])
    with connected(served.cluster) as broker:
        codes = [broker.ask(produce("t", b"x", b"\xff"), BY_NAME).responses[0].partition_responses[0] for _ in "ab"]
    assert [answer.error_code for answer in codes] == [6, 0]
    assert served.request("GET", "/pending?api=Produce") == (200, [])
    status, records = served.request("GET", "/records?topic=t&partition=0")
    assert status == 200
    assert [record["offset"] for record in records] == [0, 1]
    assert records[0]["value"] == "x"
    assert records[1]["value_base64"] == "/w=="
    assert (records[0]["key"], records[0]["headers"], records[0]["partition"]) == (None, [], 0)
    status, requests = served.request("GET", "/requests?api=Produce")
    assert [one["api"] for one in requests] == ["Produce", "Produce"]
    assert requests[0]["client_id"] == "test"


def test_a_held_answer_comes_when_it_is_released(served: Served) -> None:
    held = served.done("hold", api="Produce")["id"]
    with connected(served.cluster) as broker:
        broker.send(produce("t", b"x"), BY_NAME)
        served.done("await_met", id=held)
        served.done("release", id=held)
        broker.read()
    assert served.post("await_met", id=held, count=2, timeout=0.01) == (
        504,
        {"error": "1 of 2 requests have met <Hold Produce: 1 met, 0 to come> after 0.01 s"},
    )


def test_a_reset_leaves_the_ports_and_the_first_topics(served: Served) -> None:
    hosts = served.cluster.hosts
    fault = served.done("fail", api="Metadata", error="UNKNOWN", times=5)
    served.done("create_topic", name="u")
    served.done("stop", broker=2)
    served.done("reset")
    assert served.request("GET", "/")[1]["hosts"] == hosts
    assert [served.request("GET", f"/has_topic?name={name}")[1] for name in "tu"] == [True, False]
    assert served.request("GET", "/pending?api=Metadata")[1] == []
    assert served.post("end", id=fault["id"])[0] == 400
    with connected(served.cluster, 2) as broker:  # by its address, which is the same
        assert broker.ask(produce("t", b"x"), BY_NAME).responses


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("POST", "/fial", "{}", 404, "there is no control 'fial'; fail?"),
        ("POST", "/zzz", "{}", 404, "there is no control 'zzz'; GET / lists all"),
        ("POST", "/close", "{}", 404, "there is no control 'close'"),
        ("GET", "/fail?api=Produce&error=1", None, 405, "fail changes the cluster: POST it"),
        ("DELETE", "/", None, 405, "the method is 'DELETE': GET or POST"),
        ("POST", "/fail", '{"error": 1}', 400, "field 'api' is missing: the name or key of an API"),
        (
            "POST",
            "/fail",
            '{"api": "Produc", "error": 1}',
            400,
            "field 'api': unknown API 'Produc': did you mean Produce",
        ),
        ("POST", "/fail", '{"api": 9999, "error": 1}', 400, "field 'api': unknown API 9999"),
        ("POST", "/fail", '{"api": true, "error": 1}', 400, "field 'api': True is not the name or key of an API"),
        ("POST", "/fail", '{"api": 0, "error": "NOT_LEADER"}', 400, "did you mean NOT_LEADER_OR_FOLLOWER"),
        ("POST", "/fail", '{"api": 0, "error": 40000}', 400, "field 'error': no error has code 40000"),
        ("POST", "/fail", '{"api": 0, "error": 1, "times": 0}', 400, "times is 0: a whole number from 1 on"),
        ("POST", "/fail", '{"api": 0, "error": 1, "broker": 9}', 400, "there is no broker 9: they are numbered 1 to 2"),
        ("POST", "/fail", '{"api": 0, "error": 1, "when": 2}', 400, "there is no field 'when': api, error, times,"),
        ("POST", "/cut", '{"api": 0, "place": "under"}', 400, "place is 'under': one of before, middle, after"),
        ("POST", "/stop", '{"broker": "1"}', 400, "field 'broker': '1' is not a whole number"),
        ("POST", "/stop", '{"broker": 1.5}', 400, "field 'broker': 1.5 is not a whole number"),
        ("POST", "/latency", '{"broker": 1, "milliseconds": 1e99}', 400, "is not a whole number"),
        ("POST", "/advance", '{"seconds": 1e99}', 400, "field 'seconds': 1e+99 is too large"),
        ("POST", "/advance", '{"seconds": NaN}', 400, "NaN is no number of JSON"),
        ("POST", "/release", '{"id": 7}', 400, "field 'id': 7 is the number of no hold"),
        ("POST", "/set_group_settings", '{"max_size": "x"}', 400, "the setting max_size of groups is 'x': int is"),
        (
            "POST",
            "/set_leader",
            '{"topic": "none", "partition": 0, "broker": 1}',
            409,
            "there is no partition 0 of top",
        ),
        ("POST", "/create_topic", '{"name": "t"}', 409, "cannot create topic 't': it exists already"),
        ("GET", "/records", None, 400, "field 'topic' is missing: a text"),
        ("GET", "/records?topic=t&partition=x", None, 400, "field 'partition': 'x' is not a whole number or null"),
        ("POST", "/fail", "[]", 400, "the body is no object of JSON"),
        ("POST", "/fail", "{", 400, "'{' is no JSON"),
        ("POST", "/fail", "[" * 100_000, 400, "the JSON is nested too deeply"),
        ("POST", "/fail", b"\xff", 400, "utf-8"),
    ],
)
def test_a_wrong_request_is_refused_with_a_sentence(
    served: Served, method: str, path: str, body: str | bytes | None, status: int, text: str
) -> None:
    data = body.encode() if isinstance(body, str) else body
    answered, answer = served.request(method, path, data)
    assert answered == status, answer
    assert text in answer["error"]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / SPDY/1\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01" + bytes(100) + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"GET http://[ HTTP/1.1\r\n\r\n", 400),
        (b"POST /reset HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /reset HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n", 400),
        (b"POST /reset HTTP/1.1\r\nContent-Length: 262145\r\n\r\n" + bytes(262145), 413),
        (b"POST /reset HTTP/1.1\r\nContent-Length: " + b"9" * 10_000 + b"\r\n\r\n", 413),
        (b"POST /reset HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /reset HTTP/1.1\r\nOrigin: http://evil.example\r\n\r\n", 403),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 30_000, 431),
        (b"GET /leader?" + b"a=1&" * 200 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET http://127.0.0.1/broker_ids HTTP/1.0\r\n\r\n", 404),
        (b"GET http://127.0.0.1/ HTTP/1.0\r\n\r\n", 200),
        (b"GET /%72ecords?topic=t HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", 200),
        (b"POST /reset HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", 100),
    ],
)
def test_a_malformed_request_is_answered(served: Served, data: bytes, status: int) -> None:
    answer = served.raw(data)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert served.request("GET", "/has_topic?name=t") == (200, True)


def test_a_slow_client_is_sent_away(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_port, "_CLIENT_S", 0.1)
    assert served.raw(b"GET / HT").startswith(b"HTTP/1.1 408 ")


def test_connections_are_bounded_and_others_are_served_later(served: Served) -> None:
    streams = [served.connect() for _ in range(control_port._CLIENTS_MAX)]
    assert served.raw(b"").startswith(b"HTTP/1.1 503 ")
    for stream in streams:
        stream.close()
    until = handler.now() + LIMIT
    while (answer := served.raw(b"GET /has_topic?name=t HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 503"):
        assert handler.now() < until
    assert answer.startswith(b"HTTP/1.1 200")


def at_once(served: Served, count: int, call: Callable[[], Any]) -> list[Any]:
    answers: list[Any] = []
    workers = [handler.spawn(lambda: answers.append(call())) for _ in range(count)]
    assert all(worker.join(LIMIT) for worker in workers)
    return answers


def test_two_resets_at_once_leave_one_cluster(served: Served) -> None:
    assert at_once(served, 2, lambda: served.post("reset")) == [(200, None)] * 2
    assert served.request("GET", "/has_topic?name=t") == (200, True)


def test_the_port_closes_while_controls_are_under_way(served: Served) -> None:
    fault = served.done("hold", api="Fetch")["id"]
    idle = served.connect()
    waiting = handler.spawn(lambda: served.post("await_met", id=fault, timeout=600))
    handler.sleep(0.05)
    began = handler.now()
    served.close()
    assert waiting.join(LIMIT)
    idle.close()
    assert handler.now() - began < LIMIT
    with pytest.raises(FakeClusterError):
        served.remote.reset()
    with pytest.raises(FakeClusterError):
        served.remote.call(controls()["has_topic"], {"name": "t"})


def test_faults_of_long_ago_are_forgotten(served: Served) -> None:
    control = controls()["fail"]
    for _ in range(FAULTS_MAX + 1):
        served.remote.call(control, {"api": "Produce", "error": 1})
    assert [served.post("end", id=number)[0] for number in (1, 2)] == [400, 200]


def test_a_port_in_use_is_named(served: Served) -> None:
    port = int(served.number)
    with pytest.raises(OSError, match=f"the control port cannot listen at 127.0.0.1:{port}: "):
        ControlPort(served.remote, "127.0.0.1", port, handler)
    with pytest.raises(OSError, match=f"broker 1 cannot listen at 127.0.0.1:{port}: "):
        PlacedCluster([Place("127.0.0.1", "127.0.0.1", port)])
