"""What a client counts and reports of its own work. README.md has the map of this room."""
