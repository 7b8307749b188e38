"""Avro with a schema registry: write ten orders, read them."""

import json

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "number", "type": "int"}, {"name": "city", "type": "string"}],
    }
)
