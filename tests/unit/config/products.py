"""Configuration files in the manner of products' templates, with values of our own; `vendors.py` has those of services."""

from __future__ import annotations

from pykafka.security import Plain
from tests.unit.config.vendors import PLAIN, SECRET, TRUSTED, Template

PRODUCTS: dict[str, Template] = {
    "cloudera": Template(
        "client.properties",
        f"""security.protocol=SASL_SSL
sasl.mechanism=GSSAPI
sasl.kerberos.service.name=kafka
ssl.truststore.location=/var/lib/cloudera-scm-agent/agent-cert/cm-auto-global_truststore.jks
ssl.truststore.password={SECRET}
sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true \\
  keyTab="/etc/me.keytab" principal="me@EXAMPLE.COM";
""",
        "Gssapi",
        {"cafile": "/var/lib/cloudera-scm-agent/agent-cert/cm-auto-global_truststore.jks"},
    ),
    "cloudera with tls alone": Template(
        "client.properties",
        """bootstrap.servers=broker.example.com:9093
security.protocol=SSL
sasl.kerberos.service.name=kafka
ssl.truststore.location=/etc/trust.jks
""",
        None,
        {"cafile": "/etc/trust.jks"},
        "sasl.kerberos.service.name",
    ),
    "hortonworks of earlier times": Template(
        "client.properties",
        "security.protocol=PLAINTEXTSASL\nsasl.kerberos.service.name=kafka\n",
        refused="security.protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
    ),
    "the consumer of kafka's distribution": Template(
        "consumer.properties",
        """# list of brokers used for bootstrapping
bootstrap.servers=localhost:9092

# consumer group id
group.id=test-consumer-group

#auto.offset.reset=
""",
        consumer={"consumer_group": "test-consumer-group"},
    ),
    "a streams application": Template(
        "streams.properties",
        """application.id=mine
bootstrap.servers=localhost:9092
default.key.serde=org.apache.kafka.common.serialization.Serdes$StringSerde
num.stream.threads=4
processing.guarantee=exactly_once_v2
metric.reporters=
max.in.flight.requests.per.connection=5
linger.ms=5
""",
        ignored="max.in.flight.requests.per.connection, metric.reporters",
        unknown="application.id, default.key.serde, num.stream.threads, processing.guarantee",
        producer={"linger_ms": 5},
    ),
    "a connect worker of confluent cloud": Template(
        "connect-ccloud.properties",
        "bootstrap.servers=pkc-1a2b3.eu-west-1.aws.confluent.cloud:9092\nkey.converter=a.B\n"
        + "".join(
            f"""{part}bootstrap.servers=pkc-1a2b3.eu-west-1.aws.confluent.cloud:9092
{part}ssl.endpoint.identification.algorithm=https
{part}security.protocol=SASL_SSL
{part}sasl.mechanism=PLAIN
{part}sasl.jaas.config={PLAIN} username="KEY1" password="{SECRET}";
{part}request.timeout.ms=20000
{part}retry.backoff.ms=500
"""
            for part in ("", "producer.", "consumer.")
        )
        + "producer.client.id=sink\nconsumer.request.timeout.ms=20001\nconsumer.linger.ms=1\nhost=b\n",
        Plain("KEY1", SECRET),
        TRUSTED,
        unknown="consumer.linger.ms (did you mean producer.linger.ms?), "
        "consumer.request.timeout.ms (it is of the whole client: write request.timeout.ms), host (did you mean hosts?), "
        "key.converter, producer.client.id (it is of the whole client: write client.id)",
    ),
    "mirror maker": Template(
        "mm2.properties",
        f"""clusters = A, B
A.bootstrap.servers = a.example.com:9092
B.bootstrap.servers = b.example.com:9092
security.protocol = SASL_SSL
sasl.mechanism = PLAIN
sasl.jaas.config = {PLAIN} username="me" password="{SECRET}";
A->B.enabled = true
""",
        refused="names brokers as A.bootstrap.servers and not as bootstrap.servers: it is one of other software; write",
    ),
    "spring": Template(
        "application.properties",
        "server.port=8080\nspring.kafka.bootstrap-servers=a:9092\nspring.kafka.consumer.group-id=g\n",
        refused="Spring's files are not read: write the keys behind spring.kafka.properties",
    ),
    "quarkus": Template(
        "application.properties",
        """quarkus.http.port=8081
kafka.bootstrap.servers=a:9092
kafka.security.protocol=SSL
mp.messaging.incoming.orders.connector=smallrye-kafka
mp.messaging.incoming.orders.topic=orders
""",
        None,
        TRUSTED,
        "",
        "mp.messaging.incoming.orders.connector, mp.messaging.incoming.orders.topic, quarkus.http.port",
    ),
    "fips": Template(
        "client.properties",
        "bootstrap.servers=a:9092\nsecurity.providers=io.confluent.kafka.security.fips.provider.BcFipsProviderCreator\n",
        refused="security.providers cannot be used: they are Java classes, and TLS is OpenSSL's here",
    ),
    "spiffe": Template(
        "client.properties",
        "bootstrap.servers=a:9092\nsecurity.protocol=SSL\nssl.engine.factory.class=com.example.SpiffeSslEngineFactory\n",
        refused="ssl.engine.factory.class cannot be used: it is a Java class, and TLS is OpenSSL's here",
    ),
    "kcat with topic keys": Template(
        "kcat.conf",
        """bootstrap.servers=a:9092
topic.request.required.acks=1
topic.message.timeout.ms=3000
topic.partitioner=murmur2_random
topic.auto.offset.reset=smallest
topic.offset.store.method=broker
""",
        ignored="topic.offset.store.method",
        producer={"required_acks": 1, "delivery_timeout_ms": 3000},
    ),
}
