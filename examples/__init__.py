"""Programs that show how PyKafka is used; tests run each of them."""
