"""A job of Spark over a topic, and a notebook that shows a stream's progress: docs/spark-job.md is about both."""
