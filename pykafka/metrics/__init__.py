"""The counts and reports of a client about its own work. README.md has the map of this room."""
