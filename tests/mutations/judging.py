"""`judge`: the mutants of a state machine, each judged by the unit tests of its module.

mutmut's own runner keeps all mutants in a copy of the project behind a dispatcher. Here pytest collects the tests of a module
once, and each mutant is put into the loaded module of a fork, which runs them up to the first failure: a third of a second.
"""

from __future__ import annotations

import ast
import inspect
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.mutations.apply import ROOT

if TYPE_CHECKING:
    from tests.mutations.mutants import Mutant

#: The state machines, which decide what becomes of a message, an offset, a membership or a request; and their tests, those that
#: kill the most first. A name is that of a module in `pykafka/`; tests are in `tests/unit/`.
SUBJECTS: dict[str, tuple[str, ...]] = {
    "producer/in_flight_window": ("producer/test_in_flight_window.py",),
    "producer/batch_results": ("producer/test_batch_results.py",),
    "producer/retry_policy": ("producer/test_retry_policy.py",),
    "transactions/states": ("transactions/test_states.py", "transactions"),
    "groups/member_epoch": ("groups/test_member_epoch.py",),
    "groups/kip848/heartbeats": (
        "groups/test_consumer_group_heartbeats.py",
        "groups/test_member_epoch.py",
        "groups/test_polled_heartbeats.py",
    ),
    "groups/classic/state": ("groups/test_cooperative.py", "groups/test_coordinator.py"),
    "groups/assignment_change": (
        "groups/test_assignment_change.py",
        "groups/test_cooperative.py",
        "groups/test_assignment_follower.py",
    ),
    "consumer/fetch_request": ("consumer/test_fetch_session.py", "consumer/test_fetch_requests.py"),
    "consumer/buffers": (
        "consumer/test_buffers.py",
        "consumer/test_turns.py",
        "consumer/test_lag.py",
        "consumer/test_recovery.py",
    ),
    "consumer/leader_epochs": ("consumer/test_leader_epochs.py", "consumer/test_preferred_replica.py"),
    "parallel/tasks": ("parallel/test_tasks.py", "parallel/test_failures.py"),
    "sharegroups/acquired_records": ("sharegroups/test_acquired_records.py", "sharegroups"),
    "metadata/cache": ("metadata/test_cache.py", "metadata/test_leader_hints.py", "metadata/test_wrong_brokers.py"),
    "network/patience": ("network/test_patience.py",),
}
#: How long the tests of a mutant may take: so many times as long as without it, and some seconds more.
_PATIENCE, _MORE_S = 10, 3.0
#: How a fork ends: pytest's exit status if its tests pass, any other one, and that of a mutant that cannot be put in.
_SURVIVED, _KILLED, _NOT_TRIED = 0, 1, 77


def put_in(module: ModuleType, source: str, mutated: str) -> None:
    """Make a loaded module run as one of its mutants does.

    :raises ValueError: the mutant has other closures
    """
    before, after = compile(source, "", "exec"), compile(mutated, "", "exec")
    changed = {name: code for name, code in _functions(after).items() if code != _functions(before).get(name)}
    for name, code in changed.items():
        owner: Any = module
        for part in name.split("."):
            owner = vars(owner)[part]
        getattr(owner, "__func__", owner).__code__ = code
    kept = {ast.dump(node) for node in ast.parse(source).body}
    tables = [node for node in ast.parse(mutated).body if isinstance(node, ast.Assign | ast.AnnAssign)]
    news: list[ast.stmt] = [node for node in tables if ast.dump(node) not in kept]
    names = dict(vars(module))
    exec(compile(ast.Module(news, []), "", "exec"), vars(module))
    for name, table in names.items():
        if isinstance(table, dict) and table is not (new := vars(module)[name]):  # others have imported it
            table.clear()
            table.update(new)
            vars(module)[name] = table


def _functions(code: CodeType) -> dict[str, CodeType]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    found = {each.co_qualname: each for each in inner if each.co_flags & inspect.CO_OPTIMIZED}
    for each in inner:
        found |= {} if each.co_qualname in found else _functions(each)
    return {name: each for name, each in found.items() if "<" not in name}


class Judge:
    """A plugin of pytest: after the collection it runs the tests in a fork for each mutant, and prints those that survive."""

    def __init__(self, name: str, tried: Sequence[Mutant]) -> None:
        self._name = name
        self._source = (ROOT / f"pykafka/{name}.py").read_text()
        self._tried = tried
        self.in_fork = False
        #: The mutants that were killed, that survived, and that could not be put in; and whether the tests pass without one.
        self.outcomes: Counter[int] = Counter()
        self.passes = False

    @property
    def module(self) -> ModuleType:
        """The loaded module."""
        return sys.modules["pykafka." + self._name.replace("/", ".")]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> bool | None:
        """Return None in a fork, so that pytest goes on with the tests there."""
        if not str(self.module.__file__).endswith(".py"):
            raise SystemExit(f"{self._name} was imported compiled: start this with PYKAFKA_PURE_PYTHON=1")
        limit = 600.0
        for mutant in (None, *self._tried):
            began = time.monotonic()
            if not (process := os.fork()):
                self.in_fork = True
                self._begin(mutant)
                return None
            outcome = _outcome(process, limit)
            if mutant is None:
                self.passes = outcome == _SURVIVED
                limit = _PATIENCE * (time.monotonic() - began) + _MORE_S
            else:
                self.outcomes[outcome] += 1
                if outcome == _SURVIVED:
                    where = f"{mutant.number:4} {self._name}:{mutant.line}"
                    print(f"{where}: {mutant.before}  ->  {mutant.after}", flush=True)
            if not self.passes:
                break
        return True

    def _begin(self, mutant: Mutant | None) -> None:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(1, 2)
        if mutant is not None:
            try:
                put_in(self.module, self._source, mutant.source)
            except ValueError:
                os._exit(_NOT_TRIED)


def _outcome(process: int, limit: float) -> int:
    """Return how the tests of a fork have ended; one that lasts longer than a time (s) is killed, and so is its mutant."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code in (_SURVIVED, _NOT_TRIED) else _KILLED
        time.sleep(0.005)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return _KILLED


def judge(name: str, sample: int, seed: int, numbers: Sequence[int] = ()) -> str:
    """Print the mutants of a module that survive its tests; return a line with the figures.

    :param name: of the module, as in `SUBJECTS`
    :param sample: how many are tried at most; 0 for all
    :param seed: which ones
    :param numbers: only these
    :raises SystemExit: the tests fail without a mutant, or the module is compiled: then no mutant can be put in
    """
    from tests.mutations.mutants import mutants  # the caller has looked whether mutmut is installed

    os.environ.update(PYKAFKA_PURE_PYTHON="1", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    everyone = mutants((ROOT / f"pykafka/{name}.py").read_text())
    tried = [mutant for mutant in everyone if mutant.number in numbers] if numbers else everyone
    if sample and len(tried) > sample:
        tried = sorted(random.Random(seed).sample(tried, sample))
    plugin = Judge(name, tried)
    options = ["-x", "-s", "-W", "ignore", "-p", "no:terminal", "-o", "addopts=", "-p", "no:cacheprovider"]
    tests = [str(ROOT / "tests/unit" / test) for test in SUBJECTS[name]]
    status = pytest.main([*options, "-p", "pytest_timeout", *tests], [plugin])
    if plugin.in_fork:
        os._exit(status)
    if not plugin.passes:
        raise SystemExit(f"{name}: its tests fail without a mutant, too: {' '.join(tests)}")
    killed, survived = plugin.outcomes[_KILLED], plugin.outcomes[_SURVIVED]
    share = killed / max(1, killed + survived)
    return f"{name}: {len(everyone)} mutants, {killed + survived} tried, {killed} killed ({share:.0%})"
