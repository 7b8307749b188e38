"""The flights out of New York in 2013: greenlet producers -> Kafka -> Spark -> results, checked against the data.

`python -m examples.flights` runs the whole job. Each stage is a program of its own, too:

- `produce`: greenlets in one process replay flights and weather as JSON events;
- `pipeline`: PySpark joins the two with `format("pykafka")`, lands Parquet, and writes delays and alerts back to Kafka;
- `report`: a threaded script reads the delays, prints tables and draws a plot;
- `check`: compares everything with the CSV, counted independently.
"""
