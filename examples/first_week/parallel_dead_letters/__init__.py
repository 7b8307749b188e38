"""Handle messages side by side, in order by key; one that fails three times goes to a topic of its own."""
