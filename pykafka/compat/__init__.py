"""PyKafka 2, kafka-python's coordinator and librdkafka, over the engine, which imports nothing of it.

The documented modules, such as `pykafka.simpleconsumer`, load the classes from here when an application asks for one.
"""
