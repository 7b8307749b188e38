"""The noun transactions: list, describe, producers, find-hanging, abort."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from pykafka.admin import HangingTransaction, TransactionState
from pykafka.cli import show
from pykafka.cli.cmd_groups import DURATION
from pykafka.cli.data import time_text
from pykafka.cli.options import Session, TopicType, session_command
from pykafka.cli.verbs import Noun, ask, change_command, data_of, fail, partitions_of, print_rows
from pykafka.cli.watching import listing_command
from pykafka.exceptions import InvalidTxnState

if TYPE_CHECKING:
    from pykafka.admin import ProducerState
    from pykafka.common import TopicPartition

transactions = Noun("transactions", help="Transactions of producers. Since Kafka 3.0.")
_PRODUCER = ("Producer", "Epoch#", "Last sequence#?", "Last write?", "Transaction from#")


def _producer(one: ProducerState) -> tuple[object, ...]:
    return (
        str(one.producer_id),
        one.producer_epoch,
        one.last_sequence,
        time_text(one.last_timestamp_ms),
        one.txn_start_offset,
    )


@transactions.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice([one.value for one in TransactionState], case_sensitive=False),
    metavar="STATE",
    multiple=True,
    help=f"In this state alone: {', '.join(one.value for one in TransactionState)}; may be repeated.",
)
@click.option("--longer-than", type=DURATION, metavar="1h", help="Open for longer than this (since Kafka 3.8).")
@listing_command
def list_(session: Session, states: tuple[str, ...], longer_than: timedelta | None, as_json: bool) -> None:
    """List the transactional ids that the coordinators know."""
    with session.client() as client:
        found = client.admin.list_transactions(
            states=[TransactionState(state) for state in states],
            longer_than_ms=None if longer_than is None else longer_than // timedelta(milliseconds=1),
            raise_errors=False,
        )
    columns = ("Transactional id", "State", "Producer", "Coordinator?")
    print_rows(
        found,
        as_json,
        columns,
        lambda one: (one.transactional_id, one.state, str(one.producer_id), str(one.coordinator)),
    )
    fail(list(found.errors.values()))


@transactions.command("describe")
@click.argument("names", metavar="TRANSACTIONAL_ID...", nargs=-1, required=True)
@session_command
def describe(session: Session, names: tuple[str, ...], as_json: bool) -> None:
    """Print the state of transactions, and the partitions that they have written to."""
    with session.client() as client:
        found = client.admin.describe_transactions(dict.fromkeys(names), raise_errors=False)
    columns = ("Transactional id", "State", "Producer", "Epoch#?", "Timeout (ms)#?", "Begun", "Partitions")
    print_rows(
        list(found.values()),
        as_json,
        columns,
        lambda one: (
            one.transactional_id,
            one.state,
            str(one.producer_id),
            one.producer_epoch,
            one.timeout_ms,
            time_text(one.start_ms),
            one.partitions,
        ),
    )
    fail(list(found.errors.values()))


@transactions.command("producers")
@click.argument("texts", metavar="TOPIC[:PARTITION,...]...", type=TopicType(), nargs=-1, required=True)
@session_command
def producers(session: Session, texts: tuple[str, ...], as_json: bool) -> None:
    """List the producers with sequence numbers that partitions know. Since Kafka 2.8."""
    with session.client() as client:
        found = client.admin.describe_producers(partitions_of(client, texts), raise_errors=False)
    rows = [(item, one) for item, its in found.items() for one in its]
    if as_json:
        show.print_json([{**data_of(item), **data_of(one)} for item, one in rows])
    else:
        print_rows(rows, False, ("Topic", "Partition#", *_PRODUCER), lambda row: (*row[0], *_producer(row[1])))
    fail(list(found.errors.values()))


@transactions.command("find-hanging")
@click.argument("texts", metavar="[TOPIC[:PARTITION,...]]...", type=TopicType(), nargs=-1)
@click.option(
    "--max-timeout",
    type=DURATION,
    default="15m",
    show_default=True,
    help="How long a transaction may last: transaction.max.timeout.ms of the brokers.",
)
@session_command
def find_hanging(session: Session, texts: tuple[str, ...], max_timeout: timedelta, as_json: bool) -> None:
    """List transactions that no coordinator will ever end. Consumers of committed messages wait for them for ever."""
    with session.client() as client:
        wanted = partitions_of(client, texts) if texts else None
        found = client.admin.find_hanging_transactions(wanted, max_timeout_ms=max_timeout // timedelta(milliseconds=1))

    def cells(one: HangingTransaction) -> tuple[object, ...]:
        return (*one.partition, one.transactional_id, *_producer(one.producer))

    print_rows(found, as_json, ("Topic", "Partition#", "Transactional id", *_PRODUCER), cells)
    if not as_json:
        hint = "; `kafka-tools transactions abort TOPIC:PARTITION OFFSET` ends one" if found else ""
        show.console().print(f"{len(found):,} found{hint}.", markup=False)


@transactions.command("abort")
@click.argument("text", metavar="TOPIC:PARTITION", type=TopicType())
@click.argument("start_offset", metavar="OFFSET", type=click.IntRange(min=0))
@click.option("--force", is_flag=True, help="Also one that a coordinator still has: it will be in disorder.")
@click.option(
    "--max-timeout", type=DURATION, default="15m", show_default=True, help="As in `transactions find-hanging`."
)
@change_command
def abort(
    session: Session,
    text: str,
    start_offset: int,
    force: bool,
    max_timeout: timedelta,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Abort the hanging transaction that begins at OFFSET in a partition, as `transactions find-hanging` lists it."""
    with session.client() as client:
        items = partitions_of(client, [text])
        if len(items) != 1:
            raise click.UsageError(f"{text!r} names {len(items)} partitions; write TOPIC:PARTITION")
        (item,) = items
        producer = _open(client, item, start_offset, None if force else max_timeout)
        ask(f"Abort the transaction of producer {producer.producer_id} in {item}?", yes, dry_run)
        if not dry_run:
            client.admin.abort_transaction(item, producer)
    if as_json:
        show.print_json({**data_of(item), **data_of(producer), "dry_run": dry_run})
    else:
        done = "Would abort" if dry_run else "Aborted"
        nothing = "\nNothing was changed." if dry_run else ""
        click.echo(f"{done} the transaction of producer {producer.producer_id} in {item}.{nothing}")


def _open(client: Any, item: TopicPartition, start_offset: int, max_timeout: timedelta | None) -> ProducerState:
    """Return the producer whose transaction begins at an offset.

    :param max_timeout: look whether it hangs; None does not look
    :raises InvalidTxnState: there is none, or a coordinator may still end it
    """
    its = client.admin.describe_producers([item])[item]
    found: ProducerState | None = next((one for one in its if one.txn_start_offset == start_offset), None)
    if found is None:
        begun = ", ".join(f"{one.txn_start_offset}" for one in its if one.txn_start_offset is not None) or "none"
        raise InvalidTxnState(
            f"no open transaction begins at offset {start_offset}; open ones begin at: {begun}",
            topic=item.topic,
            partition=item.partition,
        )
    if max_timeout is not None:
        limit = max_timeout // timedelta(milliseconds=1)
        hanging = client.admin.find_hanging_transactions([item], max_timeout_ms=limit)
        if found.producer_id not in {one.producer.producer_id for one in hanging}:
            raise InvalidTxnState(
                "this transaction does not hang: its coordinator ends it, or it is too young to know; --force aborts it anyway",
                topic=item.topic,
                partition=item.partition,
            )
    return found


COMMANDS = (transactions,)
