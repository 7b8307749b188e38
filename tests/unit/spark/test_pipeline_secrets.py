"""The secrets of a declaration are in nothing that `kafka-tools pipeline` prints, whoever quotes them."""

from __future__ import annotations

import io
import logging
import signal
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner
from pyspark import SparkConf, SparkContext
from pyspark.core import context
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykafka.cli import cmd_pipeline
from pykafka.cli.app import tools
from pykafka.cli.cmd_pipeline import _Signals
from pykafka.cli.exit_status import Status
from pykafka.exceptions import RegistryError, RegistryUnavailableError
from pykafka.spark.pipeline import Declaration, DeclarationError, PipelineError, checks, launch
from pykafka.spark.pipeline.errors import SparkMissingError
from pykafka.spark.pipeline.model import FormatSink
from pykafka.spark.pipeline.tables import Problem
from tests.support.spark.declarations import MINIMAL, SOURCE, TOP, load

WRITTEN = {
    "[spark.config]\n'spark.x.password' = 'hunter2-1'": "hunter2-1",
    "[spark.config]\n'spark.x.password' = 12345678": "12345678",
    "[spark.config]\n'fs.azure.account.key.a.dfs.core.windows.net' = 'q83vEjRW=='": "q83vEjRW==",
    "[spark.config]\n'spark.x' = 'user=me;password=semi-colon-9;ssl=true'": "semi-colon-9",
    "[source.options]\n'kafka.security.protocol' = 'SASL_PLAINTEXT'\n'kafka.sasl.mechanism' = 'PLAIN'\n"
    "'kafka.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="me" password="of-a-jaas-text";\'': "of-a-jaas-text",
    "[source.options]\nproxy = 'socks5h://me:of-a-proxy@p:1080'": "of-a-proxy",
}


@pytest.mark.parametrize(("more", "secret"), WRITTEN.items())
def test_what_the_file_itself_has(file: Path, more: str, secret: str) -> None:
    found = load(file, f"{MINIMAL}{more}\n").redact(f"Spark quotes '{secret}', and user me of table x")
    assert found == "Spark quotes '[not shown]', and user me of table x"


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("jdbc:postgresql://h/shop?user=me&password=of-a-url-1", "of-a-url-1"),
        ("jdbc:sqlserver://h;user=me;password=of-a-url-2;encrypt=true", "of-a-url-2"),
        ("jdbc:oracle:thin:me/of-a-url-3@//h:1521/shop", "of-a-url-3"),
    ],
)
def test_what_a_url_has(file: Path, url: str, secret: str) -> None:
    """Drivers of databases show parts of it."""
    text = f'{TOP}{SOURCE}[sink]\nformat = "jdbc"\nurl = "{url}"\ntable = "t"\n'
    assert load(file, text).redact(f"no login with {secret} at h") == "no login with [not shown] at h"


def test_the_file_of_a_connection(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its references bring secrets, too."""
    monkeypatch.setenv("KEY_PASSWORD", "of-the-key")
    (file.parent / "ca.pem").write_text("")
    properties = file.parent / "kafka.properties"
    properties.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=as-written\n"
        "ssl.keystore.password=${env:KEY_PASSWORD}\nssl.keystore.location=/k.p12\nssl.keystore.type=PKCS12\n"
    )
    found = load(file, MINIMAL.replace("[source]", f'[source]\nconfig = "{properties}"'))
    assert found.redact("'as-written' and 'of-the-key' of me") == "'[not shown]' and '[not shown]' of me"


def test_short_ones_and_long_ones(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one is redacted where it is a word; of a key of many lines each line is redacted."""
    monkeypatch.setenv("PIN", "no")
    monkeypatch.setenv("CORES", "8")
    (file.parent / "key.pem").write_text("-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n")
    more = (
        f"[spark.config]\n'spark.x.password' = '${{PIN}}'\n'spark.x.cores' = '${{CORES}}'\n'spark.x.y' = "
        f"'${{file:{file.parent}/key.pem}}'\n'fs.s3a.aws.credentials.provider' = 'org.example.Provider'\n"
    )
    found = load(file, MINIMAL + more)
    said = found.redact("'no' is not it, nor kqhkiG9w0BAQEF; 8 cores; org.example.Provider")
    assert said == "'[not shown]' is not it, nor [not shown]; 8 cores; org.example.Provider"


def test_a_login_in_the_path_of_a_format() -> None:
    """It would be in the checkpoint's `pykafka-sink.json`, in the picture, and in a refusal."""
    sink = FormatSink("mongodb", "mongodb://me:hunter2@h/db", (), {})
    assert str(sink) == "format mongodb in mongodb://h/db"
    assert sink.place == "mongodb://h/db"


SECRET = "from-the-variable"


@pytest.fixture
def declared(file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file with a secret, for a pipeline whose checks quote it."""
    monkeypatch.setenv("KEY", SECRET)
    file.write_text(f"{MINIMAL}[spark.config]\n'spark.x' = '${{KEY}}'\n")
    return file


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Make the first check of clusters fail."""

    def find_out() -> str:
        raise error

    monkeypatch.setattr(checks, "cluster_checks", lambda _: iter([checks.Check("[source]", find_out)]))


def unstarted(*_: Any) -> NoReturn:
    """Fail as where Spark does not start."""
    raise SparkMissingError(f"Spark does not start: {SECRET}")


@pytest.mark.parametrize("options", [[], ["--progress", "json"], ["--dry-run"]])
@pytest.mark.parametrize(
    "error",
    [PipelineError(f"no access with {SECRET}"), DeclarationError("x", [Problem("[sink]", f"{SECRET} is no path")])],
    ids=["pipeline", "declaration"],
)
def test_no_error_shows_one(
    declared: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], error: Exception
) -> None:
    """Only errors of Spark's own, in a run, were redacted."""
    failing(monkeypatch, error)
    monkeypatch.setattr(launch, "session", unstarted)
    result = CliRunner().invoke(tools, ["pipeline", str(declared), *options])
    assert result.exit_code == (Status.USAGE if isinstance(error, DeclarationError) else Status.FAILED)
    assert SECRET not in result.output
    assert "[not shown]" in result.output


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("cause", "status"),
    [(RegistryUnavailableError("down"), Status.FAILED), (RegistryError("no right"), Status.USAGE)],
    ids=["down", "refused"],
)
def test_a_registry_that_is_down_is_no_wrong_declaration(
    declared: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], cause: Exception, status: Status
) -> None:
    """Status 2 says that another try is of no use."""
    error = DeclarationError("x", [Problem("[parse]", str(cause))])
    error.__cause__ = cause
    failing(monkeypatch, error)
    monkeypatch.setattr(launch, "session", unstarted)
    assert CliRunner().invoke(tools, ["pipeline", str(declared), *options]).exit_code == status


def test_no_warning_shows_one(declared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cluster_checks(_: Declaration) -> NoReturn:
        logging.getLogger("pykafka.spark.pipeline").warning("a query did not stop: %s", SECRET)
        raise PipelineError("no brokers")

    monkeypatch.setattr(checks, "cluster_checks", cluster_checks)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    result = CliRunner().invoke(tools, ["pipeline", str(declared)])
    assert "a query did not stop: [not shown]" in result.output


def test_a_dry_run_takes_signals_from_its_first_check_on(declared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While brokers did not answer, SIGTERM ended it without a word; and in a container, as process 1, not at all."""
    installed: list[Any] = []

    def cluster_checks(_: Declaration) -> NoReturn:
        installed.append(signal.getsignal(signal.SIGTERM))
        raise PipelineError("no brokers")

    monkeypatch.setattr(checks, "cluster_checks", cluster_checks)
    before = signal.getsignal(signal.SIGTERM)
    CliRunner().invoke(tools, ["pipeline", str(declared), "--dry-run"])
    assert [getattr(one, "__func__", None) for one in installed] == [_Signals._take]
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_arguments_of_the_jvm_have_none(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark starts it with all settings as arguments, and `ps` shows those to everybody on the machine."""
    seen: dict[str, str] = {}

    def launch_gateway(conf: SparkConf) -> NoReturn:
        seen.update(conf.getAll())
        raise PySparkException("no JVM in this test")

    monkeypatch.setenv("KEY", SECRET)
    monkeypatch.setenv("PYSPARK_PYTHON", "python")  # else the session sets it
    monkeypatch.setattr(context, "launch_gateway", launch_gateway)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.setattr(SparkSession, "getActiveSession", staticmethod(lambda: None))
    monkeypatch.setattr(launch, "need_java", lambda: None)
    found = load(
        file,
        f"{MINIMAL}[spark]\nmaster = 'local[1]'\n[spark.config]\n'spark.x' = 'a ${{KEY}}'\n'spark.y' = 'shown'\n"
        "'spark.authenticate.secret' = 'x1'\n'spark.driver.extraJavaOptions' = '-Dp=${KEY}'\n",
    )
    with pytest.raises(SparkMissingError, match="no JVM in this test"):
        with launch.session(found):
            pass
    assert seen["spark.y"] == "shown"
    assert seen["spark.master"] == "local[1]"
    assert seen["spark.driver.extraJavaOptions"] == f"-Dp={SECRET}"  # later it would have no effect
    assert not {"spark.x", "spark.authenticate.secret"} & {*seen}


def test_a_warning_is_printed_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A handler that a library gives the root logger meanwhile does not get what may have secrets."""
    root, others = logging.getLogger(), io.StringIO()
    monkeypatch.setattr(root, "handlers", [])
    with cmd_pipeline.warnings_shown(lambda text: text.replace("secret", "...")):
        root.addHandler(logging.StreamHandler(others))
        logging.getLogger("pykafka.spark.pipeline").warning("the secret is out")
    assert capsys.readouterr().err == "kafka-tools: the ... is out\n"
    assert others.getvalue() == ""
