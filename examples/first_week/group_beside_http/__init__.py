"""A group of consumers beside an HTTP server that tells how many messages it has read."""
