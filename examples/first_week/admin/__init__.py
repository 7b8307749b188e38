"""Make a topic with a retention, look at it, give it partitions, delete it."""
