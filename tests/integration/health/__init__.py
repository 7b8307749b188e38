"""Reports of health, and reasons for standing still, against real brokers."""
