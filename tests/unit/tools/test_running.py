"""Running the tests: one that fails, hangs or crashes once is flaky; one that does so twice fails the run."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.matrix import run_parts, sum_up
from tools.parts import KERBEROS, MATRIX, NEVERTHELESS, NEWEST, PARTS, QUICK, SAME, TEST, Part, uncompiled
from tools.running import LIMITS, Limits, Outcome, Runner, closing

ROOT = Path(__file__).resolve().parents[3]
# Processes that start one after another.
pytestmark = pytest.mark.slow

#: What all made-up tests begin with: `once(name)` is true for the first who asks.
HEAD = """
import os, time
from pathlib import Path
import pytest

def once(name):
    path = Path(__file__).with_name(name)
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
"""


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory for tests that are made up, and work there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # Dozens of times pytest is started here: other plugins would take three quarters of that.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    options = "timeout = 120\ntimeout_method = thread\naddopts = -p pytest_timeout\n"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{options}")
    return tmp_path


def outcome_of(
    tree: Path, tests: str, minutes: float = 1, limits: Limits = LIMITS, end_by: float | None = None
) -> Outcome:
    """Run a part with these tests."""
    (tree / "test_it.py").write_text(HEAD + tests)
    runner = Runner(tree / "logs", limits, end_by)
    part = Part("4.3.1", ["test_it.py", "-p", "no:cacheprovider"], minutes)
    [outcome] = run_parts(runner, {"part": part}, 1, lambda part: True)
    return outcome


def gone(pid: str) -> bool:
    """Return whether a process has ended, maybe in a moment, though nobody may ever have asked how."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if Path("/proc", pid, "stat").read_text().rpartition(") ")[2].startswith("Z"):
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def test_what_fails_once_is_run_again_alone_and_named_as_flaky(tree: Path) -> None:
    outcome = outcome_of(
        tree,
        """
@pytest.fixture(scope="module")
def process():
    return os.getpid()

@pytest.mark.parametrize("number", range(5))
def test_good(number): pass

@pytest.mark.parametrize("text", ["it is [so]", "x::y", "-k", "\\n"])
def test_fails(text, process):
    print("said", "the first time")
    assert text == "-k" or not once(text.strip() or "line")

def test_teardown(request):
    request.addfinalizer(lambda: 1 / 0 if once("teardown") else None)

@pytest.mark.timeout(2)
def test_hangs(process):
    if once("hangs"):
        time.sleep(100)

def test_crashes(process):
    if once("crashes"):
        os.abort()

def test_after_the_crash(process): pass
""",
    )
    assert (outcome.passed, outcome.failed, outcome.broken) == (13, {}, "")
    assert list(outcome.flaky) == [
        "test_it.py::test_fails[it is [so]]",
        "test_it.py::test_fails[x::y]",
        "test_it.py::test_fails[\\n]",
        "test_it.py::test_teardown",
        "test_it.py::test_hangs",
        "test_it.py::test_crashes",
    ]
    for words, test in {
        "said the first time": "test_fails[x::y]",
        "ZeroDivisionError": "test_teardown",
        "time.sleep(100)": "test_hangs",
        "by SIGABRT": "test_crashes",
    }.items():
        assert words in outcome.flaky[f"test_it.py::{test}"]
    assert "_pytest" not in outcome.flaky["test_it.py::test_hangs"]
    lines = closing([outcome])
    assert lines[-1] == "13 passed, 0 failed"
    assert "FLAKY test_it.py::test_hangs (part; " in "\n".join(lines)
    assert sum_up([outcome], []) == 0


def test_what_fails_twice_has_failed(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = outcome_of(tree, "def test_fails():\n    assert not once('it'), 1\n    assert 0\n")
    assert list(outcome.failed) == ["test_it.py::test_fails"]
    assert outcome.passed == 0
    told = outcome.failed["test_it.py::test_fails"]
    assert told.index("AssertionError: 1") < told.index("run again alone") < told.index("assert 0")
    assert sum_up([outcome], []) == 1
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == "0 passed, 1 failed"
    assert "FLAKY" not in said
    assert sum_up([], [], [outcome]) == 0, "what fails in rotation fails nothing"
    said = capsys.readouterr().out
    assert "FAILED IN ROTATION" in said
    assert "test_it.py::test_fails (part; " in said


def test_what_crashes_twice_has_failed_and_the_rest_is_run(tree: Path) -> None:
    outcome = outcome_of(tree, "def test_crashes(): os._exit(3)\ndef test_good(): pass\n")
    assert list(outcome.failed) == ["test_it.py::test_crashes"]
    assert "its process was gone, with 3" in outcome.failed["test_it.py::test_crashes"]
    assert (outcome.passed, outcome.broken) == (1, "")


def test_a_process_that_breaks_after_its_last_test_is_put_down_to_it(tree: Path) -> None:
    outcome = outcome_of(
        tree,
        "import atexit\ndef test_good(): pass\ndef test_last():\n    once('it') and atexit.register(os._exit, 7)\n",
    )
    assert (outcome.passed, list(outcome.flaky), outcome.failures) == (2, ["test_it.py::test_last"], 0)
    assert "its process was gone, with 7" in outcome.flaky["test_it.py::test_last"]


def test_where_many_fail_none_is_run_again(tree: Path) -> None:
    outcome = outcome_of(
        tree,
        "@pytest.mark.parametrize('n', range(4))\ndef test_fails(n):\n    assert not once(str(n))\n",
        limits=Limits(again=3),
    )
    assert len(outcome.failed) == 4
    assert "run again" not in Path(outcome.log).read_text()


def test_a_fixture_that_fails_for_many_is_one_failure(tree: Path) -> None:
    outcome = outcome_of(
        tree,
        """
@pytest.fixture(scope="module")
def brokers():
    assert not once("brokers"), "they do not come up"

@pytest.mark.parametrize("n", range(20))
def test_with(brokers, n): pass

def test_without(): pass
""",
    )
    assert (outcome.passed, len(outcome.flaky), outcome.failures) == (21, 20, 0)
    assert "they do not come up" in outcome.flaky["test_it.py::test_with[0]"]
    assert outcome.flaky["test_it.py::test_with[19]"] == "as test_it.py::test_with[0]"


def test_what_cannot_be_collected_fails_at_once(tree: Path) -> None:
    outcome = outcome_of(tree, "import no_such_module\n")
    assert outcome.failures == 1
    assert "test_it.py" in outcome.broken
    assert "No module named 'no_such_module'" in Path(outcome.log).read_text()
    assert closing([outcome])[-1] == "0 passed, 1 failed"


def test_a_part_without_tests_has_failed(tree: Path) -> None:
    assert outcome_of(tree, "").failures == 1


def test_a_hang_that_pytest_timeout_does_not_see_is_ended(tree: Path) -> None:
    outcome = outcome_of(
        tree,
        """
import ctypes
@pytest.mark.timeout(1)
def test_hangs():
    if once("it"):
        ctypes.PyDLL(None).sleep(100)  # holds the interpreter's lock
def test_good(): pass
""",
        limits=Limits(grace_s=1),
    )
    assert (outcome.passed, list(outcome.flaky), outcome.failures) == (2, ["test_it.py::test_hangs"], 0)
    assert "ended since a test hung for 2 s" in outcome.flaky["test_it.py::test_hangs"]
    assert "in test_hangs" in outcome.flaky["test_it.py::test_hangs"], "it was to say where it was"


@pytest.mark.parametrize("whole_run", [False, True])
def test_a_part_that_takes_far_too_long_is_ended_with_all_its_processes(tree: Path, whole_run: bool) -> None:
    # In the group of pytest, or in one of its own.
    tests = (
        f"own_group = {whole_run}"
        + """
import subprocess
def test_good(): pass
def test_long():
    child = subprocess.Popen(["sleep", "1000"], start_new_session=own_group)
    Path("pid").write_text(str(child.pid))
    child.wait()
def test_never(): pass
"""
    )
    end_by = time.monotonic() + 5 if whole_run else None
    outcome = outcome_of(tree, tests, minutes=1 if whole_run else 0.1, limits=Limits(times=1), end_by=end_by)
    why = "the time of the whole run is up" if whole_run else "it took 1 times its 0.1 minutes"
    assert outcome.broken == f"ended since {why}, in test_it.py::test_long"
    assert (outcome.passed, list(outcome.failed)) == (1, ["test_it.py::test_long"])
    assert gone((tree / "pid").read_text())


def test_progress_is_told_while_a_part_runs(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "test_it.py").write_text(
        "import time\ndef test_one(): pass\ndef test_two(): assert 0\ndef test_three(): time.sleep(3)\n"
    )
    runner = Runner(tree / "logs")
    outcomes = list(run_parts(runner, {"part": Part("4.3.1", ["test_it.py"], 1)}, 2, lambda part: True, tell_s=0.1))
    said = capsys.readouterr().out
    assert outcomes[0].failures == 1
    assert "matrix: part begins" in said
    assert re.search(
        r"\[0 of 1 parts ended\] part 0:\d\d  2 of 3 tests, 1 failed  test_it.py::test_three \(\d s\)", said
    )
    assert "matrix: part: test_it.py::test_two failed; it is run again, alone, after its part" in said
    # All that it said is printed when a part has failed.
    assert "def test_two(): assert 0" in said


def test_parts_that_do_not_fit_in_the_time_that_is_left_are_left_out(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "test_it.py").write_text("def test_one(): pass\n")
    parts = {"long": Part("4.3.1", ["test_it.py"], 8), "short": Part("4.3.1", ["test_it.py"], 1)}
    outcomes = list(run_parts(Runner(tree / "logs"), parts, 2, lambda part: part.minutes < 5))
    assert [outcome.name for outcome in outcomes] == ["short"]
    assert "left out for lack of time: long" in capsys.readouterr().out


def matrix(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.matrix", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_several_runs_are_summed_up_in_one(tree: Path) -> None:
    good = Outcome("good", 1.0, 5, {}, {"test_a": "it said so"}, "", "log")
    other = Outcome("other", 1.0, 6, {}, {}, "", "log")
    bad = Outcome("bad", 1.0, 1, {"test_b": "no"}, {}, "broken", "log")
    file = tree / "outcomes"
    file.write_text("".join(json.dumps(outcome._asdict()) + "\n" for outcome in (good, other)))
    done = matrix("--sum-up", str(file))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "11 passed, 0 failed")
    assert "FLAKY test_a (good; log)\n    it said so\n" in done.stdout
    done = matrix("--sum-up", str(file), "--failed", "make lint")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "11 passed, 1 failed")
    assert "make lint" in done.stdout
    with file.open("a") as more:
        more.write(json.dumps(bad._asdict()) + "\n")
    done = matrix("--sum-up", str(file), "--failed", "make test")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "12 passed, 2 failed")


def test_the_cpu_time_of_pytest_and_of_all_that_it_starts_is_said(tree: Path) -> None:
    spend = "import sys, time\nwhile time.process_time() < 0.5: pass\ntime.sleep(float(sys.argv[1]))\n"
    (tree / "spend.py").write_text(spend)
    # Nobody waits for its child, as for workers of Spark.
    lose = "import signal, subprocess, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    (tree / "lose.py").write_text(f"{lose}subprocess.call([sys.executable, 'spend.py', '1'])\n")
    outcome = outcome_of(
        tree,
        "import subprocess, sys\n"
        "def test_child():\n    subprocess.run([sys.executable, 'spend.py', '0'], check=True)\n"
        "def test_lost():\n    subprocess.run([sys.executable, 'lose.py'], check=True)\n"
        "def test_here():\n    end = time.process_time() + 0.5\n    while time.process_time() < end: pass\n",
    )
    # Three times 0.5 s, of which a sample may miss some ticks; pytest itself takes 0.1 s and more.
    assert outcome.cpu_s > 1.4
    events = [json.loads(line) for line in (tree / "logs" / "part.record").read_text().splitlines()]
    spent = {event["test"].partition("::")[2]: event["cpu"] for event in events if event["event"] == "end"}
    assert all(spent[test] > 0.45 for test in ("test_child", "test_here")), spent
    assert f"({outcome.cpu_s:.0f} s of CPU)" in outcome.told()
    assert f"{outcome.cpu_s:.0f} s of CPU" in closing([outcome])


def test_compiled_modules_are_kept(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    outcome = outcome_of(tree, "import sys\ndef test_it():\n    assert not sys.dont_write_bytecode\n")
    assert (outcome.passed, outcome.failed, outcome.broken) == (1, {}, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_is_interrupted_ends_what_he_started(tree: Path, number: signal.Signals) -> None:
    (tree / "test_it.py").write_text(
        "import os, time\nfrom pathlib import Path\n"
        "def test_long():\n    Path('pid').write_text(str(os.getpid()))\n    time.sleep(100)\n"
    )
    script = """
import sys
from tools import matrix, parts
matrix.PARTS["it"] = parts.Part("4.3.1", ["test_it.py"], 1)
sys.argv[1:] = ["it"]
raise SystemExit(matrix.main())
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not ((tree / "pid").exists() and (tree / "pid").read_text()):
            assert time.monotonic() < deadline, "the test has not begun"
            time.sleep(0.05)
        process.send_signal(number)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "0 passed, 1 failed"
    assert gone((tree / "pid").read_text())


@pytest.mark.parametrize("members", [None, "classic"])
def test_a_part_chooses_the_protocol_of_members(
    tree: Path, members: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GROUP_PROTOCOL", raising=False)
    test = f"def test_it():\n    import os\n    assert os.environ.get('GROUP_PROTOCOL') == {members!r}\n"
    (tree / "test_it.py").write_text(test)
    part = Part("4.3.1", ["test_it.py", "-p", "no:cacheprovider"], 1, members=members)
    [outcome] = run_parts(Runner(tree / "logs"), {"part": part}, 1, lambda part: True)
    assert outcome.passed == 1


def test_every_part_is_short() -> None:
    # Those of `make test` take twice as long, eight at a time on two cores, and some run on the newest release, too.
    long = {*TEST, *(f"{name}-{NEWEST}" for name in TEST)}
    assert [name for name, part in PARTS.items() if part.minutes > (18 if name in long else 8)] == []
    # .ci/run ends what still runs after 70 minutes.
    assert sum(part.minutes for part in TEST.values()) / 8 <= 22.5
    assert not set(TEST) & set(MATRIX)


def runs(part: Part, path: str) -> bool:
    """Return whether a part collects a file."""
    ignored = [argument.partition("=")[2] for argument in part.arguments if argument.startswith("--ignore=")]
    chosen = [argument.partition("::")[0] for argument in part.arguments if argument.startswith("tests")]
    within = {path, *map(str, Path(path).parents)}
    # pytest ignores nothing that is named itself
    return not within.intersection(ignored).difference(chosen) and bool(within.intersection(chosen))


def test_what_is_left_out_with_the_uncompiled_sources_is_there_and_in_the_matrix() -> None:
    assert [path for path in SAME if not (ROOT / path).exists()] == []
    quick = [str(path.relative_to(ROOT)) for top in QUICK for path in (ROOT / top).rglob("test_*.py")]
    assert [path for path in quick if not runs(MATRIX["quick-pure"], path)] == []
    assert MATRIX["quick-pure"].pure
    left_out = [path for path in quick if not runs(TEST["pure"], path)]
    assert left_out
    assert [path for path in left_out if not {path, *map(str, Path(path).parents)} & set(SAME)] == []


def test_rooms_without_compiled_modules_run_once(tmp_path: Path) -> None:
    for name in ("tests/unit/plain", "tests/unit/fast/inner", "tests/embedded/plain", "tests/embedded/transactions"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "test_it.py").touch()
    (tmp_path / "tests/unit/test_fast.py").touch()
    (tmp_path / "pykafka/plain").mkdir(parents=True)
    (tmp_path / "pykafka/fast").mkdir()
    (tmp_path / "pykafka/fast/module.pxd").touch()
    assert uncompiled(tmp_path) == ["tests/unit/plain", "tests/embedded/plain"]
    # and of this checkout each room with a compiled module has tests that run with the sources
    pure = [str(path.relative_to(ROOT)) for top in QUICK for path in (ROOT / top).rglob("test_*.py")]
    tested = {Path(path).parts[2] for path in pure if runs(TEST["pure"], path)}
    rooms = {path.relative_to(ROOT / "pykafka").parts[0] for path in (ROOT / "pykafka").rglob("*/*.pxd")}
    # (of virtual time, tests compare the histories with those of the sources)
    assert rooms - tested == {"aio", "testing", "utils"}
    for path in ("tests/embedded/test_aio_steps.py", "tests/unit/test_partitioners.py"):
        assert runs(TEST["pure"], path)
    assert all((ROOT / path).is_dir() for path in NEVERTHELESS)


def test_every_case_that_make_test_leaves_out_is_in_the_matrix() -> None:
    marked = [
        str(path.relative_to(ROOT))
        for directory in ("integration", "spark", "examples", "embedded", "unit")
        for path in (ROOT / "tests" / directory).rglob("test_*.py")
        if path != Path(__file__) and re.search(r"mark\.(matrix|later)\b", path.read_text())
    ]
    # nor does a part with "-k" run all cases of its files
    taking = [
        part
        for part in MATRIX.values()
        if not any("not matrix" in argument or argument == "asyncio" for argument in part.arguments)
    ]
    assert len(marked) > 30
    assert [path for path in marked if path != KERBEROS and not any(runs(part, path) for part in taking)] == []


def test_every_file_is_run_by_make_test() -> None:
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    latest = [part for part in TEST.values() if not part.pure and part.directory is None]
    assert len(files) > 100
    assert [path for path in files if not any(runs(part, path) for part in latest)] == []
    named = {argument for part in PARTS.values() for argument in part.arguments if argument.startswith("tests/")}
    assert [path for path in named if not (ROOT / path.partition("::")[0]).exists()] == []
