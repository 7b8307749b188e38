"""A web application that answers a request when Kafka has its message."""
