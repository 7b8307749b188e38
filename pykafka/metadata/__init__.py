"""What a cluster says of itself: the brokers that name the others, topics, offsets."""
