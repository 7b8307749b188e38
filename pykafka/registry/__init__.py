"""The schema registry: its schemas by id, by subject and version, and the bytes by which a record says its schema.

It knows nothing of Spark, and nothing of topics but the names of their subjects: Spark's formats use it, and serializers can.
"""
