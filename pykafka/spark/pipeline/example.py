"""An example of a declaration, as a starting point."""

EXAMPLE = '''\
# A pipeline: from topics of Kafka to Parquet, or to another topic. Keys that are commented out show their defaults.
# Check it with `kafka-tools pipeline --dry-run FILE`, then run it with `kafka-tools pipeline FILE`.

# name = "the name of this file"

# How far the pipeline is; with it, a new run continues where the last one ended. Keep it with the sink.
checkpoint = "/data/checkpoints/clicks"

# "available_now": read what is there now, in micro-batches, and end; "once": in a single one;
# an interval like "10 seconds": continue, with a micro-batch that often.
# trigger = "available_now"

[source]
brokers = "localhost:9092"          # or a list
topic = "clicks"                    # or a list; or pattern = "clicks-.*"; or partitions = { clicks = [0, 1] }
# start = "earliest"                # of the first run: "latest", or { clicks = { 0 = 23, 1 = -2 } }
# columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]

[source.options]                    # any option of format("pykafka"), see docs/spark.md
maxOffsetsPerTrigger = 500_000

# Values become columns. Without this table, rows have Kafka's own columns.
[parse]
format = "json"                     # or "csv"
schema = "user STRING, page STRING, at TIMESTAMP, ms INT"
# column = "value"                  # or "key"
# options = {}                      # of Spark's from_json or from_csv

# Records that cannot be parsed go here as they are. Without this table, the first one ends the pipeline.
[malformed]
format = "parquet"                  # or "topic", with topic = "clicks-malformed"
path = "/data/malformed/clicks"

# Or, in one pass over the topic: those, and rows for which a step's column `error` is not null, to a topic of dead letters.
# [dead_letters]
# topic = "clicks-dead"

# Any number of steps, each a query. The first view is `records`: the columns of the schema, and `kafka`, a struct with
# Kafka's own. The last step's rows go to the sink.
[[transform]]
view = "named"
sql = "SELECT * FROM records WHERE user IS NOT NULL"

[[transform]]
sql = """
SELECT user, page, at, ms, kafka.offset, to_date(at) AS day
FROM named
"""

[sink]
format = "parquet"
path = "/data/clicks"
partition_by = ["day"]
# options = { compression = "snappy" }
# files_per_batch = 1               # else each task writes one

# To a topic instead; rows need a column `value`, and may have `key`, `headers` and `partition`:
# [sink]
# format = "topic"
# topic = "clicks-copy"             # or a column `topic`
# brokers = "those of the source"
# options = { "kafka.compression.type" = "zstd" }

# A table of Delta Lake (or format = "iceberg", table = "lake.web.clicks", warehouse = "/data/lake"):
# [sink]
# format = "delta"
# path = "/data/clicks"
# merge = "user"                    # else rows are added; with it, a row replaces that of its key
# latest_by = "offset"
# delete_where = "page IS NULL"

# A table of a database:
# [sink]
# format = "jdbc"
# url = "jdbc:postgresql://localhost/shop"
# table = "clicks"
# options = { user = "loader", password = "${file:/run/secrets/shop}", driver = "org.postgresql.Driver" }
# and in [spark.config]: "spark.jars.packages" = "org.postgresql:postgresql:42.7.4"

# Several: [[source]] with view = "clicks", [[sink]] with name = "copy" and from = "clicks", see docs/pipeline.md.

# [udf]
# modules = ["my_functions"]        # functions in Python for SQL, from my_functions.py beside this file

# [metrics]
# address = "127.0.0.1:9400"        # where Prometheus finds /metrics

# [alert]
# url = "${env:ALERT_URL}"          # gets a POST of JSON when the pipeline fails, and when it is well again

# [restart]                         # without it, the first failure ends the pipeline
# attempts = 5
# backoff = "10 seconds"

# [spark]
# master = "spark://host:7077"      # else what Spark is configured with, or this machine
# config = { "spark.sql.shuffle.partitions" = 8, "spark.sql.session.timeZone" = "UTC" }
'''
