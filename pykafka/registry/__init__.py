"""The schema registry: its schemas by id, by subject and version, and the bytes by which a record says its schema.

It knows nothing of Spark, and nothing of topics but the names of their subjects. Spark's formats and the serializers use it.
"""

from typing import TYPE_CHECKING

from pykafka.utils import names_on_use

if TYPE_CHECKING:
    from pykafka.registry.avro_serializers import AvroDeserializer, AvroSerializer
    from pykafka.registry.client import Registry
    from pykafka.registry.schemas import Reference

__all__ = ["AvroDeserializer", "AvroSerializer", "Reference", "Registry"]

if not TYPE_CHECKING:
    __getattr__ = names_on_use(
        __name__,
        {
            "avro_serializers": "AvroDeserializer AvroSerializer",
            "client": "Registry",
            "schemas": "Reference",
        },
    )
