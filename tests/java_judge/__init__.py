"""Kafka's own Java classes as the judge of what we write, read and declare; no broker.

A test here runs a small Java program against the jars of Kafka's client, or reads the descriptions of messages in them. It
has the mark `java_judge`: `pytest -m java_judge` runs all of them, which takes a JDK 17.
"""
