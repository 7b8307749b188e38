"""Tests that share a cluster of the pytest plugin find the same, and each fails by its own errors."""

from __future__ import annotations

import pytest

from tests.testing.plugin_runs import Run, run_fixture  # noqa: F401  (a fixture)

pytest_plugins = ["pytester"]

HOOKS = """
import pytest


@pytest.fixture
def broken(kafka_cluster):
    def fail(call):
        raise ZeroDivisionError("of this hook")

    kafka_cluster.on_request(fail)


def test_of_the_hook(kafka_cluster, kafka_client, kafka_topic):
    def fail(call, response):
        raise ZeroDivisionError("of this hook")

    kafka_cluster.on_answer(fail)
    with pytest.raises(Exception):
        kafka_client.admin.describe_topics(["none"])


def test_another(kafka_client, kafka_topic, assert_delivered):
    kafka_client.producer().produce(kafka_topic, b"1").get(timeout=10)
    assert_delivered(kafka_topic, ["1"])


def test_of_a_fixture(kafka_topic, kafka_client, broken):
    with pytest.raises(Exception):
        kafka_client.admin.describe_topics(["none"])


def test_yet_another(kafka_client, kafka_topic, assert_delivered):
    kafka_client.producer().produce(kafka_topic, b"1").get(timeout=10)
    assert_delivered(kafka_topic, ["1"])
"""


@pytest.mark.parametrize("scope", ["function", "session"])
def test_an_error_of_a_hook_fails_the_test_that_has_set_it(run: Run, scope: str) -> None:
    result = run(HOOKS, "-rf", ini=f"kafka_cluster_scope = {scope}")
    result.assert_outcomes(passed=2, failed=2)
    output = result.stdout.str()
    for name in "test_of_the_hook", "test_of_a_fixture":
        assert f"FAILED test_user.py::{name} - pykafka.testing.faults.Fake" in output
    assert "ZeroDivisionError('of this hook') was raised when broker" in output


TOPICS = """
import pytest

pytestmark = pytest.mark.kafka(topics={"shared": 1, "unnumbered": {}})


@pytest.fixture
def found(kafka_cluster):
    return kafka_cluster.has_topic("own")


@pytest.mark.kafka(topics={"own": 2})
def test_topics_are_there_before_fixtures(found, kafka_cluster):
    assert found and kafka_cluster.has_topic("own")


@pytest.mark.kafka(topics={"late": {"partitions": 2, "retention.ms": 5}})
def test_so_they_are_for_later_tests(kafka_cluster):
    assert kafka_cluster.has_topic("late")


@pytest.mark.kafka(topics={"own": 3})
def test_another_number(kafka_cluster): pass


@pytest.mark.kafka(topics={"late": {"partitions": 2, "retention.ms": 6}})
def test_another_setting(kafka_cluster): pass


@pytest.mark.kafka(topics={"late": {"retention.ms": 5}, "unnumbered": {}}, partitions=7)
def test_what_is_not_said_may_differ(kafka_cluster): pass
"""


def test_topics_that_another_test_has_made_otherwise_are_refused(run: Run) -> None:
    result = run(TOPICS, ini="kafka_cluster_scope = module")
    result.assert_outcomes(passed=3, failed=2)
    output = result.stdout.str()
    assert "has topic 'own' with partitions 3, but tests before have left it with partitions 2 on" in output
    assert "has topic 'late' with retention.ms 6, but tests before have left it with retention.ms 5 on" in output


STATE = """
import pytest

seen = []


@pytest.fixture(scope="class")
def counted(kafka_cluster):
    return kafka_cluster.on_request(lambda call: seen.append(call))


@pytest.fixture
def local(kafka_cluster):
    kafka_cluster.on_request(lambda call: seen.append("local"))


class TestAll:
    def test_changes(self, kafka_cluster, counted, local, kafka_client):
        counted()  # ends the hook that its class wants
        kafka_cluster.set_quota("producer_byte_rate", 1, client_id="*")
        kafka_cluster.set_versions("Produce", -1, -1)
        kafka_cluster.set_rack(1, "a")
        kafka_cluster.set_group_settings(max_size=1)
        kafka_cluster.track_requests()
        kafka_cluster._play("2.8.2")
        kafka_client.admin.describe_topics([])

    def test_finds_all_as_it_was(self, kafka_cluster, kafka_client, counted, kafka_topic):
        seen.clear()
        kafka_client.admin.describe_topics([kafka_topic])
        assert seen and "local" not in seen
        state = kafka_cluster._state
        assert state.quotas.values == {} and state.release.name == "4.4.0" and 0 in state.versions
        assert state.nodes[1].rack is None and state.groups.settings.max_size > 1
        assert kafka_cluster.requests() == []


def test_a_hook_of_a_class_that_is_over_stays_as_it_does(kafka_cluster):
    assert len(kafka_cluster._faults.on_request) == 2  # and that of the report
"""


def test_each_test_finds_the_cluster_as_the_first_one(run: Run) -> None:
    result = run(STATE, ini="kafka_cluster_scope = module")
    result.assert_outcomes(passed=3)


ENDS = """
import pytest


def state(cluster):
    found = cluster._state
    up = [number for number, node in found.nodes.items() if node.is_up]
    hooks = len(cluster._faults.on_request)
    return hooks, dict(found.versions), found.nodes[1].rack, dict(found.quotas.values), up


def change(cluster, to):
    cluster.on_request(lambda call: None)
    cluster.set_versions("Produce", to, to)
    cluster.set_rack(1, f"rack {to}")
    cluster.set_quota("producer_byte_rate", to, client_id=str(to))
    cluster.stop(2)


@pytest.fixture(scope="module")
def first(kafka_cluster):
    return state(kafka_cluster)


@pytest.fixture
def changing(kafka_cluster):
    yield
    change(kafka_cluster, 7)


@pytest.fixture
def failing(kafka_cluster):
    change(kafka_cluster, 8)
    raise ZeroDivisionError


def test_changes(kafka_cluster, first, changing): pass


def test_changes_at_its_end(kafka_cluster, first, request):
    assert state(kafka_cluster) == first
    request.addfinalizer(lambda: change(kafka_cluster, 9))


def test_whose_fixture_fails(first, failing): pass


class TestOfAClass:
    @pytest.fixture(scope="class")
    def quotas(self, kafka_cluster):
        kafka_cluster.set_quota("producer_byte_rate", 1, client_id="class")
        yield
        kafka_cluster.set_quota("producer_byte_rate", None, client_id="class")

    def test_changes_too(self, kafka_cluster, quotas, changing):
        assert len(kafka_cluster._state.quotas.values) == 1

    def test_finds_that_of_its_class(self, kafka_cluster, changing):
        assert len(kafka_cluster._state.quotas.values) == 1


def test_finds_all_as_it_was(kafka_cluster, first):
    assert state(kafka_cluster) == first
"""


def test_what_fixtures_of_a_test_change_behind_its_end_ends(run: Run) -> None:
    result = run(ENDS, ini="kafka_cluster_scope = module")
    result.assert_outcomes(passed=5, errors=1)


LATE = """
import pytest

calls = []


def own(call):
    calls.append("own")


@pytest.fixture(scope="module")
def inner(kafka_cluster):
    kafka_cluster.on_request(lambda call: calls.append("inner"))


@pytest.fixture(scope="module")
def late(kafka_cluster, request):
    request.getfixturevalue("inner")
    kafka_cluster.on_request(lambda call: calls.append("late"))
    kafka_cluster.set_rack(2, "late")
    kafka_cluster.set_quota("producer_byte_rate", 5, client_id="late")
    kafka_cluster.set_quota("producer_byte_rate", None, client_id="early")


@pytest.fixture(scope="module")
def early(kafka_cluster):
    kafka_cluster.set_quota("producer_byte_rate", 4, client_id="early")


@pytest.fixture
def in_the_middle(kafka_cluster, request):
    kafka_cluster.on_request(own)
    kafka_cluster.set_rack(1, "own")
    kafka_cluster.set_quota("producer_byte_rate", 6, client_id="own")
    request.getfixturevalue("late")
    kafka_cluster.on_request(own)


@pytest.mark.parametrize("where", ["in_a_fixture", "behind_it"])
def test_asks_for_it(request, kafka_cluster, kafka_client, kafka_topic, early, where):
    if where == "in_a_fixture":
        request.getfixturevalue("in_the_middle")
    kafka_cluster.set_rack(3, "own")
    kafka_cluster.on_request(own)
    request.getfixturevalue("late")
    assert kafka_cluster._state.nodes[3].rack == "own"
    calls.clear()
    kafka_client.admin.describe_topics([kafka_topic])
    assert set(calls) == {"own", "inner", "late"}


def test_finds_what_it_has_done_and_no_more(kafka_cluster, kafka_client, kafka_topic):
    calls.clear()
    kafka_client.admin.describe_topics([kafka_topic])
    assert set(calls) == {"inner", "late"} and calls.count("inner") == calls.count("late")
    state = kafka_cluster._state
    assert [node.rack for node in state.nodes.values()] == [None, "late", None]
    assert [list(rates.values()) for rates in state.quotas.values.values()] == [[5]]
"""


@pytest.mark.parametrize("where", ["in_a_fixture", "behind_it"])
def test_a_fixture_of_a_module_that_a_test_asks_for_late_keeps_its_own_changes_only(run: Run, where: str) -> None:
    result = run(LATE, "-k", f"{where} or finds", ini="kafka_cluster_scope = module")
    result.assert_outcomes(passed=2, deselected=1)


ASKING = """
import pytest

from pykafka.admin import NewTopic

calls = []


def own(call):
    calls.append("own")


def change(cluster):
    cluster.on_request(own)
    cluster.set_rack(1, "own")
    cluster.fail("CreateTopics", "INVALID_REQUEST", times=1000)


@pytest.fixture
def asking(request):
    change(request.getfixturevalue("kafka_cluster"))


@pytest.fixture
def changing_at_its_end(request):
    cluster = request.getfixturevalue("kafka_cluster")
    yield
    change(cluster)


def test_asks_for_it_first(request):
    change(request.getfixturevalue("kafka_cluster"))


def found(request):
    cluster, client = request.getfixturevalue("kafka_cluster"), request.getfixturevalue("kafka_client")
    calls.clear()
    client.admin.create_topics([NewTopic(request.node.name)])
    assert calls == []
    assert {node.rack for node in cluster._state.nodes.values()} == {None}


def test_finds_it_as_it_was(request): found(request)


def test_asks_for_it(request):
    change(request.getfixturevalue("kafka_cluster"))


def test_finds_it_again(request, kafka_cluster): found(request)


def test_whose_fixture_asks_for_it(asking): pass


def test_finds_it_then(request, kafka_cluster): found(request)


def test_whose_fixture_changes_it_at_its_end(changing_at_its_end): pass


def test_finds_it_at_last(request, kafka_cluster): found(request)


def test_that_fails(request):
    change(request.getfixturevalue("kafka_cluster"))
    assert False


def test_does_not_ask_and_fails(request):
    assert False
"""


@pytest.mark.parametrize("scope", ["session", "module"])
def test_a_test_that_asks_for_a_shared_cluster_by_its_name_leaves_nothing(run: Run, scope: str) -> None:
    """Nothing was put back behind it: later tests found its hooks and faults. A failure tells of the cluster's requests."""
    result = run(ASKING, ini=f"kafka_cluster_scope = {scope}")
    result.assert_outcomes(passed=8, failed=2)
    assert result.stdout.str().count("- Kafka cluster -") == 1
