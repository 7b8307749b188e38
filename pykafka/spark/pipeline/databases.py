"""Tables of databases: a micro-batch is written beside the table, and moves into it in one transaction with its number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, cast

from py4j.protocol import Py4JJavaError

from pykafka.spark.pipeline.errors import PipelineError
from pykafka.spark.pipeline.fitting import Fit, compare, is_on, names_only, refuse_gone, refuse_reserved, refuse_unknown
from pykafka.spark.pipeline.model import JdbcSink
from pykafka.spark.pipeline.redaction import redacted
from pykafka.spark.references import looks_secret

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The table with the number of the last micro-batch of each query.
BATCHES = "pykafka_batches"
_JARS = 'and see that its jar is there, as by "spark.jars.packages" in [spark.config]'
#: How long a database may take to say that a connection lives (s).
_VALID_S = 10


def table_beside(table: str, query: str) -> str:
    """Return the table for the micro-batches of a query before they move on.

    Of this query alone, as another pipeline may write to the same table. Its name does not begin with the table's: databases
    cut long names, PostgreSQL at 63 bytes, and what is left would be the table itself, which Spark then replaces.

    :param table: where rows belong
    :param query: identity of the streaming query
    """
    schema, dot, _ = table.rpartition(".")
    return f"{schema}{dot}pykafka_{query.replace('-', '')[:20]}"  # 28 letters: some databases allow 30


def without_secrets(text: str, options: Mapping[str, str]) -> str:
    """Return the text of a driver without the URL and the passwords, which some drivers show.

    :param options: of Spark's format("jdbc")
    """
    return redacted(text, {value for name, value in options.items() if value and (name == "url" or looks_secret(name))})


class DatabaseWriter:
    """The writer of micro-batches to a table.

    :param spark: the session
    :param sink: the table
    :raises PipelineError: the database's driver is not found
    """

    #: The column that says whether a row deletes its key.
    GONE = "pykafka_gone"

    def __init__(self, spark: SparkSession, sink: JdbcSink) -> None:
        self._jvm = cast("Any", spark._jvm)
        self._case_sensitive = is_on(spark, "spark.sql.caseSensitive")
        self._sink = sink
        options = self._jvm.java.util.HashMap()
        for name, text in {**sink.options, "dbtable": sink.table}.items():
            options.put(name, text)
        # As Spark's own writer connects: with the driver's class from the session's jars, and its providers of logins.
        scala = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(options)
        with self._explained(f"give the driver's class as the option driver, such as org.postgresql.Driver, {_JARS}"):
            # Without the option Spark asks for a driver of the URL, and Java has only those of its own class path.
            self._options = self._jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(scala)
        self._dialect = self._jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(sink.options["url"])

    def check(self) -> None:
        """Connect, and disconnect.

        :raises PipelineError: the database cannot be reached, or its driver is missing
        """
        with self._connected():
            pass

    def fit(self, names: Sequence[str], done: int | None) -> Fit | None:
        """Compare the table's columns with those of the rows; return None if there is no table yet.

        :param names: of the rows' columns
        :param done: the number of the last micro-batch that the table should have; None: there is none
        :raises TableMismatchError: rows would be lost, or parts of them
        """
        if self._sink.merge is not None:
            refuse_reserved(names, self._sink)
        with self._connected() as connection:
            return self._fit(connection, names, done)

    def land(self, rows: DataFrame, query: str, number: int) -> None:
        """Write a micro-batch, once, whatever happened before.

        :param rows: the micro-batch
        :param query: identity of the streaming query
        :param number: the micro-batch's number
        :raises TableMismatchError: rows would be lost, or parts of them
        """
        # Of rows that are added, a column of this name is their own.
        has_gone = self._sink.merge is not None and self.GONE in rows.columns
        own = rows.drop(self.GONE) if has_gone else rows
        with self._connected() as connection:
            fit = self._fit(connection, own.columns, number - 1 if number else None)
            if fit is None:
                self._write(own.limit(0), self._sink.table, "append")
                fit = self._fit(connection, own.columns, None)
            assert fit is not None
            self._make_batches(connection)
            if self._is_done(connection, query, number):
                return
        staging = table_beside(self._sink.table, query)
        self._write(rows, staging, "overwrite")
        with self._connected() as connection:
            with_null = self._keys_with_null(connection, staging)
            connection.setAutoCommit(False)
            try:
                for statement in self._moves(staging, fit, with_null, has_gone):
                    self._execute(connection, statement)
                self._note(connection, query, number)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise
            connection.setAutoCommit(True)
            self._execute(connection, f"DROP TABLE {staging}")

    def _make_batches(self, connection: Any) -> None:
        """Create the table of numbers if it does not exist."""
        if self._exists(connection, BATCHES):
            return
        try:
            self._execute(
                connection, f"CREATE TABLE {BATCHES} (query_id VARCHAR(64) NOT NULL PRIMARY KEY, batch_id BIGINT)"
            )
        except PipelineError:
            # The query of another sink may have been quicker.
            if not self._exists(connection, BATCHES):
                raise

    def _moves(self, staging: str, fit: Fit, with_null: Sequence[str], has_gone: bool) -> Iterator[str]:
        """Yield the statements that move rows from the table beside into the table.

        :param fit: how the columns of both are called
        :param with_null: columns of the key that are null in some row
        :param has_gone: whether a column says which rows delete their key
        """
        merge, table = self._sink.merge, self._sink.table
        mine = [f"{staging}.{self._quoted(name)}" for name, _ in fit.pairs]
        theirs = [self._quoted(name) for _, name in fit.pairs]
        insert = f"INSERT INTO {table} ({', '.join(theirs)}) SELECT {', '.join(mine)} FROM {staging}"
        kept = f"{staging}.{self._quoted(self.GONE)} = 0" if has_gone else ""
        if merge is None:
            yield insert
            return
        same = " AND ".join(self._same(staging, dict(fit.pairs), key, key in with_null) for key in merge.keys)
        there = f"EXISTS (SELECT 1 FROM {staging} WHERE {same}"
        if not fit.lacking:
            yield f"DELETE FROM {table} WHERE {there})"
            yield f"{insert} WHERE {kept}" if kept else insert
            return
        # Columns that the rows lack stay as they are, so rows that are there are changed. A subquery for each column is slower,
        # and what all databases have.
        if kept:
            yield f"DELETE FROM {table} WHERE {there} AND NOT {kept})"
        changes = [
            f"{name} = (SELECT {value} FROM {staging} WHERE {same})"
            for (own, _), value, name in zip(fit.pairs, mine, theirs, strict=True)
            if own not in merge.keys
        ]
        if changes:
            yield f"UPDATE {table} SET {', '.join(changes)} WHERE {there})"
        new = f"NOT EXISTS (SELECT 1 FROM {table} WHERE {same})"
        yield f"{insert} WHERE {kept} AND {new}" if kept else f"{insert} WHERE {new}"

    def _same(self, staging: str, names: Mapping[str, str], key: str, is_null: bool) -> str:
        """Return the condition that a column of the key is the same; of null, too, if a row has it, as it is slower."""
        mine, theirs = f"{staging}.{self._quoted(key)}", f"{self._sink.table}.{self._quoted(names[key])}"
        same = f"{mine} = {theirs}"
        return f"({same} OR ({mine} IS NULL AND {theirs} IS NULL))" if is_null else same

    def _keys_with_null(self, connection: Any, staging: str) -> list[str]:
        """Return the columns of the key that are null in some row of the table beside."""
        keys = () if self._sink.merge is None else self._sink.merge.keys
        return [
            key
            for key in keys
            if self._number(connection, f"SELECT COUNT(*) FROM {staging} WHERE {self._quoted(key)} IS NULL")
        ]

    def _fit(self, connection: Any, names: Sequence[str], done: int | None) -> Fit | None:
        table = self._columns(connection)
        if table is None:
            refuse_gone(self._sink, done)
            return None
        fit = compare(names_only(names), names_only(table), self._case_sensitive)
        refuse_unknown(fit, self._sink)
        return fit

    def _columns(self, connection: Any) -> list[str] | None:
        """Return the names of the table's columns; None if there is no table."""
        if not self._exists(connection, self._sink.table):
            return None
        with closing(connection.prepareStatement(self._dialect.getSchemaQuery(self._sink.table))) as statement:
            about = statement.executeQuery().getMetaData()
            return [str(about.getColumnName(number)) for number in range(1, about.getColumnCount() + 1)]

    def _write(self, rows: DataFrame, table: str, mode: str) -> None:
        rows.write.format("jdbc").options(**self._sink.options).option("dbtable", table).mode(mode).save()

    def _exists(self, connection: Any, table: str) -> bool:
        # Some databases look at a table when the statement is prepared, some when it is executed.
        try:
            with closing(connection.prepareStatement(self._dialect.getTableExistsQuery(table))) as statement:
                statement.executeQuery().close()
        except Py4JJavaError:
            # Each database says in its own way that there is none; the creation of the table raises anything else.
            if not connection.isValid(_VALID_S):
                with self._explained("check that the database runs"):
                    raise
            return False
        return True

    def _is_done(self, connection: Any, query: str, number: int) -> bool:
        with closing(connection.prepareStatement(f"SELECT batch_id FROM {BATCHES} WHERE query_id = ?")) as statement:
            statement.setString(1, query)
            rows = statement.executeQuery()
            return bool(rows.next()) and rows.getLong(1) >= number

    def _note(self, connection: Any, query: str, number: int) -> None:
        for text in (
            f"DELETE FROM {BATCHES} WHERE query_id = ?",
            f"INSERT INTO {BATCHES} (query_id, batch_id) VALUES (?, {number})",
        ):
            with closing(connection.prepareStatement(text)) as statement:
                statement.setString(1, query)
                statement.executeUpdate()

    @staticmethod
    def _number(connection: Any, text: str) -> int:
        with closing(connection.createStatement()) as statement:
            rows = statement.executeQuery(text)
            return int(rows.getLong(1)) if rows.next() else 0

    def _execute(self, connection: Any, text: str) -> None:
        with closing(connection.createStatement()) as statement, self._explained(f"it was asked to {text}"):
            statement.executeUpdate(text)

    def _quoted(self, name: str) -> str:
        return str(self._dialect.quoteIdentifier(name))

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        with self._explained(f"check url, user and password, {_JARS}"):
            connection = self._dialect.createConnectionFactory(self._options).apply(-1)
        with closing(connection):
            yield connection

    @contextmanager
    def _explained(self, advice: str) -> Iterator[None]:
        """Turn an error of the driver, or of its absence, into one that says what to do, without secrets."""
        try:
            yield
        except Py4JJavaError as error:
            said = without_secrets(error.java_exception.toString(), self._sink.options)
            raise PipelineError(f"{self._sink}: {said}: {advice}") from None
