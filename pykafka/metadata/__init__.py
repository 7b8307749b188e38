"""The client's view of one cluster: brokers, topics, leaders, offsets by time."""
