"""A job of Spark that logs in by Kerberos: `kerberos_job.py MASTER HOSTS TOPIC COPY PRINCIPAL KEYTAB DIRECTORY`.

It writes a topic, copies it by a stream and reads the copy. Spark sends the file KEYTAB to the executors; the driver has a file
of that name in its directory. Then the job reads with a keytab that the driver alone has. It prints a line of JSON behind
`FOUND`.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

ROWS = 200
#: In the directory of the driver, and nowhere else.
ALONE = "of-the-driver.keytab"


def main(master: str, hosts: str, topic: str, copy: str, principal: str, keytab: str, directory: str) -> None:
    """Print what came of it."""
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.executor.memory", "512m").config("spark.cores.max", "2")
    spark = builder.config("spark.files", keytab).getOrCreate()

    def options(file: str) -> dict[str, str]:
        module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        return {
            "kafka.bootstrap.servers": hosts,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "GSSAPI",
            "kafka.sasl.kerberos.service.name": "kafka",
            "kafka.sasl.jaas.config": f'{module} keyTab="{file}" principal="{principal}";',
        }

    good = options(Path(keytab).name)
    rows = spark.range(ROWS).repartition(2).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("pykafka").options(**good).option("topic", topic).mode("append").save()
    stream = spark.readStream.format("pykafka").options(**good, subscribe=topic, startingOffsets="earliest").load()
    query = (
        stream.selectExpr("value")
        .writeStream.format("pykafka")
        .options(**good, topic=copy, checkpointLocation=f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = (
        spark.read.format("pykafka")
        .options(**good, subscribe=copy)
        .load()
        .selectExpr("CAST(CAST(value AS STRING) AS INT) AS n")
    )
    told = {"rows": sorted(row.n for row in found.collect()), "refusal": ""}
    shutil.copy(keytab, ALONE)
    try:
        spark.read.format("pykafka").options(**options(ALONE), subscribe=copy).load().collect()
    except PySparkException as error:
        told["refusal"] = str(error)
    print("FOUND", json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
