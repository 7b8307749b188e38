"""Shared facts of the job's stages: addresses of brokers, names of topics, paths of files."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka import KafkaClient

#: Of each topic: the tasks of Spark share them.
PARTITIONS = 12
#: A departure later than this is an alert (minutes).
ALERT_MINUTES = 120
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Job:
    """One run of the job.

    :param hosts: "host:port,host:port" of the brokers
    :param directory: the directory of the results
    :param suffix: suffix of the topics' names, for a run on a cluster that others use
    :param limit: the largest number of flights to replay
    :param config: file with the properties of the client, where brokers ask for TLS and a login, as Java has them
    """

    hosts: str
    directory: Path
    suffix: str = ""
    limit: int | None = None
    config: Path | None = None

    @property
    def flights(self) -> str:
        """The topic of the flights."""
        return f"flights{self.suffix}"

    @property
    def weather(self) -> str:
        """The topic of the weather."""
        return f"weather{self.suffix}"

    @property
    def delays(self) -> str:
        """The topic of the aggregates."""
        return f"delays{self.suffix}"

    @property
    def alerts(self) -> str:
        """The topic of the flights that left very late."""
        return f"alerts{self.suffix}"

    @property
    def topics(self) -> dict[str, int]:
        """The topics with their numbers of partitions."""
        return dict.fromkeys((self.flights, self.weather, self.delays, self.alerts), PARTITIONS)

    @property
    def landed(self) -> Path:
        """The directory of the joined flights, as Parquet."""
        return self.directory / "landed"

    @property
    def checkpoints(self) -> Path:
        """The directory of the checkpoints of Spark's queries."""
        return self.directory / "checkpoints"

    @property
    def plot(self) -> Path:
        """The file of the plot."""
        return self.directory / "delays.png"

    @property
    def work(self) -> Path:
        """The directory of temporary files."""
        return self.directory / "work"

    @property
    def spark_log(self) -> Path:
        """Spark's log file."""
        return self.directory / "spark.log"

    def client(self, **options: Any) -> KafkaClient:
        """Return a client of the brokers.

        :param options: as of `KafkaClient`
        """
        from pykafka import KafkaClient

        if self.config is None:
            return KafkaClient(self.hosts, **options)
        return KafkaClient.from_config(self.config, **options)

    def spark_options(self) -> dict[str, str]:
        """Return the options by which Spark's source and sink reach the brokers: the same properties, with a prefix."""
        if self.config is None:
            return {"kafka.bootstrap.servers": self.hosts}
        properties = (line.partition("=") for line in self.config.read_text().splitlines() if line)
        return {f"kafka.{key}": value for key, _, value in properties}

    def arguments(self) -> list[str]:
        """Return the command line of this job for a stage."""
        arguments = ["--hosts", self.hosts, "--directory", str(self.directory), f"--suffix={self.suffix}"]
        if self.config is not None:
            arguments += ["--config", str(self.config)]
        return arguments if self.limit is None else [*arguments, "--limit", str(self.limit)]

    @classmethod
    def from_command_line(cls, description: str | None) -> Job:
        """Return the job that a stage's command line describes."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--hosts", default="127.0.0.1:9092", help="host:port,host:port of the brokers")
        parser.add_argument("--config", type=Path, help="file with the properties of the client, as Java has them")
        parser.add_argument("--suffix", default="", help="of the topics' names")
        add_common_arguments(parser)
        return cls(**vars(parser.parse_args()))


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the whole job and of each stage."""
    parser.add_argument("--directory", type=Path, default=ROOT / "var" / "flights", help="where results go")
    parser.add_argument("--limit", type=_positive, metavar="N", help="replay the first N flights only")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number
