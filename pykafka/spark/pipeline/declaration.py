"""The declaration of a pipeline in a TOML file, read and checked without Spark and without a broker."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pykafka.spark.pipeline.configured import with_values
from pykafka.spark.pipeline.errors import DeclarationError
from pykafka.spark.pipeline.model import (
    ARROW,
    FILES,
    NEEDED,
    RECORDS,
    Input,
    Output,
    Sink,
    Source,
    Step,
    TopicSink,
    is_written_by_tasks,
)
from pykafka.spark.pipeline.operation import Operation, read_operation
from pykafka.spark.pipeline.redaction import redacted, secrets_of
from pykafka.spark.pipeline.sinks import (
    check_loop,
    check_malformed,
    check_path,
    check_unchanged,
    read_mode,
    read_sink,
    read_topic,
)
from pykafka.spark.pipeline.sources import (
    INTERVAL,
    NAME,
    read_parsing,
    read_source,
    read_steps,
    read_view,
    read_watermark,
)
from pykafka.spark.pipeline.tables import Problem, Table
from pykafka.spark.references import looks_secret

#: Keys by which one of several tables is named.
_NAMES = ("name", "view")

#: Formats that can keep malformed records.
_KEPT = (*FILES, "topic")


def override(data: dict[str, Any], text: str, problems: list[Problem]) -> None:
    """Set a value at its place: as TOML if it is valid TOML, else as text.

    :param data: the file, as tomllib parsed it
    :param text: "source.topic=x", or "sink.NAME.path=x" and "sink.2.path=x" if there are several
    :param problems: the list that takes problems
    """
    name, equals, value = text.partition("=")
    # A URL of a database or of a webhook may be a secret as a whole.
    shown = f"{name}=..." if equals and (looks_secret(text) or "://" in value or "@" in value) else text
    place = f"--set {shown}"
    if not equals:
        problems.append(Problem(place, "must be KEY=VALUE, as in source.topic=clicks"))
        return
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the command line that are no text
        problems.append(Problem(f"--set {shown!a}", "is no UTF-8"))
        return
    # As a table of its own, so that keys may be dotted and quoted as in the file.
    for written in (value, json.dumps(value, ensure_ascii=False)):
        try:
            _merge(data, tomllib.loads(f"{name} = {written}"))
        except tomllib.TOMLDecodeError:
            continue
        except ValueError as error:
            problems.append(Problem(place, str(error)))
        return
    problems.append(Problem(place, f"{name!r} is not a key like source.topic"))


def _merge(data: dict[str, Any], new: Mapping[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and key in data:
            there = data[key]
            if isinstance(there, list) and there and all(isinstance(item, dict) for item in there):
                if len(there) == 1 and not any(_is(there[0], 1, which) for which in value):
                    _merge(there[0], value)  # the only one needs no name, as if it is written [key]
                    continue
                for which, inner in value.items():
                    _merge(_chosen(there, key, which), inner if isinstance(inner, dict) else {which: inner})
            elif isinstance(there, dict):
                _merge(there, value)
            else:
                raise ValueError(f"{key!r} is no table in the file; edit it there")
        else:
            data[key] = value


def _chosen(tables: list[dict[str, Any]], key: str, which: str) -> dict[str, Any]:
    """Return one of several tables, by its name or its number."""
    for number, table in enumerate(tables, 1):
        if _is(table, number, which):
            return table
    raise ValueError(f"there are several tables [[{key}]]: say which, by its name or number, as in {key}.1.KEY=VALUE")


def _is(table: Mapping[str, Any], number: int, which: str) -> bool:
    return which in (str(number), *(table.get(name) for name in _NAMES))


@dataclass(frozen=True)
class Declaration:
    """A pipeline, checked as far as possible without a cluster.

    :param name: the name of its queries
    :param checkpoint: directory of its progress
    :param trigger: "available_now", "once" or an interval
    :param inputs: what it reads, at least one
    :param steps: transforms, in order
    :param outputs: where it writes, at least one
    :param master: Spark's master; "" for Spark's own configuration, or this machine
    :param config: Spark's settings
    :param operation: how it is looked after
    :param udfs: modules whose functions SQL can call
    :param directory: the file's directory, where such modules may lie
    :param dead_letters: the topic for records that cannot be parsed or transformed; None: there is none
    :param secrets: what references in the file, and in those of `config`, bring, and passwords that these have themselves
    """

    name: str
    checkpoint: str
    trigger: str
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    master: str
    config: Mapping[str, str] = field(repr=False)
    operation: Operation = field(default_factory=Operation)
    udfs: tuple[str, ...] = ()
    directory: Path = Path()
    dead_letters: TopicSink | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False, compare=False)

    @classmethod
    def load(cls, path: Path, overrides: Iterable[str] = ()) -> Declaration:
        """Return the declaration in a file.

        :param path: the TOML file
        :param overrides: "source.topic=x", each replaces a value of the file
        :raises DeclarationError: lists all problems
        """
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise DeclarationError(
                str(path), [Problem("the file", f"cannot be read: {error.strerror or error}")]
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DeclarationError(str(path), [Problem("the file", f"is not TOML: {error}")]) from error
        problems: list[Problem] = []
        for text in overrides:
            override(data, text, problems)
        declaration = _declaration(Table("", data, problems), path, problems)
        if declaration is None or problems:
            raise DeclarationError(str(path), problems)
        return replace(declaration, secrets=secrets_of(data, os.environ))

    def redact(self, text: str) -> str:
        """Return other people's text without the secrets of this declaration: Spark and drivers of databases quote options."""
        return redacted(text, self.secrets)

    def checkpoint_of(self, directory: str) -> str:
        """Return the checkpoint of one query.

        :param directory: as its input or output names it
        """
        return f"{self.checkpoint.rstrip('/')}/{directory}"

    def query_of(self, output: Output) -> str:
        """Return the name of the query of a sink."""
        return f"{self.name}-{output.name}" if output.name else self.name

    def input_of(self, output: Output) -> Input | None:
        """Return the source whose rows go to a sink as they are; None if a step makes them."""
        return next((one for one in self.inputs if one.view == output.view), None)


def _declaration(top: Table, path: Path, problems: list[Problem]) -> Declaration | None:
    """Return the declaration in a file; None if it has problems, which are noted."""
    inputs, malformed_tables = _inputs(top)
    views = [one.view for one in inputs]
    steps = read_steps(top.tables("transform"), views)
    outputs: list[tuple[Table, Output]] = []
    for table in top.sections("sink", required=True):
        output = _output(table, [one.source for one in inputs], views, steps, [one for _, one in outputs])
        if output is not None:
            outputs.append((table, output))
    _check_directories(outputs, malformed_tables)
    _check_writers(outputs, inputs)
    spark = top.table("spark")
    master, config = "", {}
    if spark is not None:
        master, config = spark.text("master"), with_values(spark, spark.options("config"), "config")
        spark.finish()
    made = Declaration(
        name=top.text("name", path.stem),
        checkpoint=top.text("checkpoint", required=True),
        trigger=_trigger(top),
        inputs=tuple(inputs),
        steps=steps,
        outputs=tuple(output for _, output in outputs),
        master=master,
        config=config,
        operation=read_operation(top),
        udfs=_udfs(top.table("udf")),
        directory=path.absolute().parent,
        dead_letters=_dead_letters(top.table("dead_letters"), inputs),
    )
    top.finish()
    if problems:
        return None
    _check_loops(made, problems)
    _check_prefixes(made, problems)
    return made


def _inputs(top: Table) -> tuple[list[Input], list[tuple[Table, Input]]]:
    """Return the sources, and the tables about malformed records with the source of each."""
    sections = top.sections("source", required=True)
    # Beside the only source, or within it.
    parse, kept = top.table("parse"), top.table("malformed")
    for outer in (parse, kept):
        if outer is not None and len(sections) > 1:
            outer.problem(
                "", f"does not say of which source: write [source.{outer.place()[1:-1]}] behind its [[source]]"
            )
    inputs: list[Input] = []
    malformed_tables: list[tuple[Table, Input]] = []
    for table in sections:
        malformed_table = _inner(table, "malformed", kept)
        inputs.append(_input(table, read_source(table), _inner(table, "parse", parse), malformed_table, inputs))
        if malformed_table is not None:
            malformed_tables.append((malformed_table, inputs[-1]))
    if not sections:  # so that their mistakes are reported together with it
        read_parsing(parse, None)
        if kept is not None:
            read_sink(kept, [], _KEPT)
    return inputs, malformed_tables


def _input(
    table: Table, source: Source, parse: Table | None, malformed_table: Table | None, others: Sequence[Input]
) -> Input:
    view = read_view(table, "view", RECORDS, [other.view.lower() for other in others])
    parsing = read_parsing(parse, source)
    malformed, malformed_place = None, ""
    if malformed_table is not None:
        malformed, malformed_place = read_sink(malformed_table, [source], _KEPT), malformed_table.place()
        malformed_table.finish()
    watermark = read_watermark(table.table("watermark"))
    table.finish()
    return Input(table.place(), view, source, parsing, malformed, malformed_place, watermark)


def _inner(table: Table, key: str, outer: Table | None) -> Table | None:
    """Return a table within a source's; else that at the top of the file."""
    inner = table.table(key)
    if inner is not None and outer is not None:
        inner.problem("", f"contradicts {outer.place()}: remove one of them")
    return outer if inner is None else inner


def _output(
    table: Table, sources: Sequence[Source], views: Sequence[str], steps: Sequence[Step], others: Sequence[Output]
) -> Output | None:
    name = table.text("name")
    if name and not NAME.fullmatch(name):
        table.problem("name", f"{name!r} cannot be a name: letters, digits and underscores can")
    if name.lower() in [other.name.lower() for other in others]:
        what = f"{name!r} exists already" if name else "missing: only one sink can be without"
        table.problem("name", f"{what}; each sink has its progress under its name")
    named = [*views, *(step.view for step in steps if step.view)]
    view = table.text("from")
    if view and view not in named:
        table.problem("from", f"{view!r} is the view of no source and no step; those are {', '.join(named)}")
    if not view and steps:
        view = steps[-1].view
    elif not view and len(views) > 1:
        table.problem("from", f"missing: there is no [[transform]], so say which source goes here: {', '.join(views)}")
    elif not view and views:
        view = views[0]
    sink = read_sink(table, sources)
    mode = read_mode(table, sink)
    table.finish()
    return None if sink is None else Output(table.place(), name, view, sink, mode)


def _check_directories(outputs: Sequence[tuple[Table, Output]], malformed: Sequence[tuple[Table, Input]]) -> None:
    """Note directories of sinks that lie in each other, and names of queries that are the same."""
    seen: list[tuple[str, Sink]] = []
    queries = {one.malformed_directory for _, one in malformed}
    for table, output in outputs:
        if output.name.lower() in queries:
            table.problem("name", f"{output.name!r} is the query of the malformed records: give this one another name")
        check_path(table, output.sink, seen)
        seen.append((output.place, output.sink))
    for table, one in malformed:
        check_malformed(table, one.malformed, seen, one.parsing is not None)
        if one.malformed is not None:
            seen.append((table.place(), one.malformed))


def _check_writers(outputs: Sequence[tuple[Table, Output]], inputs: Sequence[Input]) -> None:
    """Note sinks that the source's tasks are to write, and that take other rows than the source's own."""
    for table, output in outputs:
        if not is_written_by_tasks(output.sink):
            continue
        of = next((one for one in inputs if one.view == output.view), None)
        what = "a [[transform]]" if of is None else of.parsing.place if of.parsing is not None else None
        if what is not None:
            table.problem(
                "writer",
                f'"{ARROW}" writes records as they are, and these rows come from {what}: remove writer, or take the records '
                "themselves",
            )


def _dead_letters(table: Table | None, inputs: Sequence[Input]) -> TopicSink | None:
    if table is None:
        return None
    sink = read_topic(table, [one.source for one in inputs])
    table.finish()
    if sink.topic is None:
        table.problem("topic", "missing, but required")
    check_unchanged(table, sink)
    if sink.prefix is not None:
        table.problem(
            "options transactionalIdPrefix", "has no effect here: dead letters are sent while rows are read; remove it"
        )
    for one in inputs:
        if one.malformed is not None:
            table.problem("", f"contradicts {one.malformed_place}: records that cannot be parsed go to one of them")
        lacking = [name for name in NEEDED if name not in one.source.columns]
        if lacking:
            table.problem(
                "", f"needs all of a record: add {', '.join(lacking)} to {one.place} columns, or remove that key"
            )
    return sink


def _check_loops(declaration: Declaration, problems: list[Problem]) -> None:
    if declaration.dead_letters is not None:
        for one in declaration.inputs:
            check_loop(one, declaration.dead_letters, "[dead_letters]", False, problems)
    for output in declaration.outputs:
        for one in declaration.inputs:
            check_loop(one, output.sink, output.place, one is declaration.input_of(output), problems)
    for one in declaration.inputs:
        for other in declaration.inputs:
            if one.malformed is not None:
                check_loop(other, one.malformed, one.malformed_place, False, problems)


def _check_prefixes(declaration: Declaration, problems: list[Problem]) -> None:
    """Note sinks that share a prefix of transactional ids: each would fence the other."""
    sinks: list[tuple[str, Sink | None]] = [(one.place, one.sink) for one in declaration.outputs]
    sinks += [(one.malformed_place, one.malformed) for one in declaration.inputs]
    first: dict[str, str] = {}
    for place, sink in sinks:
        prefix = sink.prefix if isinstance(sink, TopicSink) else None
        if prefix is not None and first.setdefault(prefix, place) != place:
            problems.append(
                Problem(
                    f"{place} options transactionalIdPrefix",
                    f"{prefix!r} is also that of {first[prefix]}: give each sink a prefix of its own",
                )
            )


def _udfs(table: Table | None) -> tuple[str, ...]:
    """Return the names of modules with functions for SQL."""
    if table is None:
        return ()
    modules = table.texts("modules", required=True)
    for module in modules:
        if not all(NAME.fullmatch(part) for part in module.split(".")):
            table.problem("modules", f"{module!r} is no name of a module: write it as in `import`, without .py")
    table.finish()
    return modules


def _trigger(top: Table) -> str:
    trigger = top.text("trigger", "available_now")
    if trigger not in ("available_now", "once") and not INTERVAL.fullmatch(trigger):
        top.problem("trigger", f"must be 'available_now', 'once' or an interval like '10 seconds', not {trigger!r}")
    return trigger
