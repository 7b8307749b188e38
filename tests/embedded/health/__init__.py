"""Reports of health, the watch for stalls, and held hubs."""
