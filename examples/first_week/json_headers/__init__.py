"""JSON with keys and headers: write ten orders, read them."""
