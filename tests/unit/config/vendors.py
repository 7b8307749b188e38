"""Configuration files in the manner of services' and products' templates, with values of our own, and what becomes of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from pykafka.security import Plain, Scram

SECRET = "fake+Secret/42=="
MODULE = "org.apache.kafka.common.security"
PLAIN = f"{MODULE}.plain.PlainLoginModule required"
_SCRAM = f"{MODULE}.scram.ScramLoginModule required"
_OAUTH = f"{MODULE}.oauthbearer.OAuthBearerLoginModule required"


class Template(NamedTuple):
    """A file, and what the client makes of it.

    :param name: of the file
    :param text: its content
    :param sasl: the credentials; their class where they can hardly be compared
    :param tls: attributes of the `SslConfig`; None for a client without TLS
    :param ignored: the keys that the warning names
    :param unknown: those of them that this client does not know
    :param producer: defaults of producers, as far as they matter here
    :param consumer: defaults of consumers
    :param refused: a part of the error, where the file is refused
    """

    name: str
    text: str
    sasl: Any = None
    tls: dict[str, Any] | None = None
    ignored: str = ""
    unknown: str = ""
    producer: dict[str, Any] = {}
    consumer: dict[str, Any] = {}
    refused: str = ""


TRUSTED: dict[str, Any] = {"cafile": None, "check_hostname": True}

SERVICES: dict[str, Template] = {
    "confluent java with a registry": Template(
        "java-sr.config",
        f"""ssl.endpoint.identification.algorithm=https
sasl.mechanism=PLAIN
request.timeout.ms=20000
bootstrap.servers=pkc-1a2b3.eu-west-1.aws.confluent.cloud:9092
retry.backoff.ms=500
sasl.jaas.config={PLAIN} username="KEY1" password="{SECRET}";
security.protocol=SASL_SSL
# key.serializer=io.confluent.kafka.serializers.KafkaAvroSerializer

# Schema Registry specific settings
basic.auth.credentials.source=USER_INFO
schema.registry.basic.auth.user.info=SRKEY:{SECRET}
schema.registry.url=https://psrc-1.eu-west-1.aws.confluent.cloud
schema.registry.ssl.truststore.location=/etc/registry.jks
""",
        Plain("KEY1", SECRET),
        TRUSTED,
        "basic.auth.credentials.source, schema.registry.basic.auth.user.info, schema.registry.ssl.truststore.location, "
        "schema.registry.url",
    ),
    "confluent java of its console": Template(
        "client.properties",
        f"""bootstrap.servers=pkc-1a2b3.eu-west-1.aws.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.jaas.config={PLAIN} username='KEY1' password='{SECRET}';
sasl.mechanism=PLAIN
client.dns.lookup=use_all_dns_ips
session.timeout.ms=45000
acks=all
client.id=ccloud-java-client-1a2b
schema.registry.url=https://psrc-1.eu-west-1.aws.confluent.cloud
basic.auth.credentials.source=USER_INFO
basic.auth.user.info=SRKEY:{SECRET}
auto.register.schemas=false
use.latest.version=true
""",
        Plain("KEY1", SECRET),
        TRUSTED,
        "basic.auth.credentials.source, basic.auth.user.info, schema.registry.url",
        "auto.register.schemas, use.latest.version",
        {"required_acks": -1},
        {"session_timeout_ms": 45000},
    ),
    "confluent librdkafka": Template(
        "librdkafka.config",
        f"""# Kafka
bootstrap.servers=pkc-1a2b3.eu-west-1.aws.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.username=KEY1
sasl.password={SECRET}
ssl.endpoint.identification.algorithm=https
sasl.mechanism=PLAIN

# Confluent Cloud Schema Registry
schema.registry.url=https://psrc-1.eu-west-1.aws.confluent.cloud
basic.auth.credentials.source=USER_INFO
schema.registry.basic.auth.user.info=SRKEY:{SECRET}
""",
        Plain("KEY1", SECRET),
        TRUSTED,
        "basic.auth.credentials.source, schema.registry.basic.auth.user.info, schema.registry.url",
    ),
    "confluent python": Template(
        "config.ini",
        f"""[default]
bootstrap.servers=pkc-1a2b3.eu-west-1.aws.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.mechanisms=PLAIN
sasl.username=KEY1
sasl.password={SECRET}

[consumer]
group.id=python_group
auto.offset.reset=earliest
enable.auto.offset.store=false

[schema_registry]
url=https://psrc-1.eu-west-1.aws.confluent.cloud
""",
        Plain("KEY1", SECRET),
        TRUSTED,
        "consumer.enable.auto.offset.store, schema_registry.url",
        "",
        {},
        {"consumer_group": "python_group"},
    ),
    "confluent's command of earlier times": Template(
        "config",
        f"""bootstrap.servers=pkc-1a2b3.eu-west-1.aws.confluent.cloud\\:9092
ssl.endpoint.identification.algorithm=https
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={PLAIN} username\\="KEY1" password\\="fake+Secret/42\\=\\=";
""",
        Plain("KEY1", SECRET),
        TRUSTED,
    ),
    "confluent oauth by librdkafka": Template(
        "client.properties",
        f"""bootstrap.servers=pkc-1a2b3.eu-west-1.aws.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.mechanisms=OAUTHBEARER
sasl.oauthbearer.method=OIDC
sasl.oauthbearer.client.id=me
sasl.oauthbearer.client.secret={SECRET}
sasl.oauthbearer.token.endpoint.url=https://idp.example.com/oauth2/token
sasl.oauthbearer.scope=kafka
sasl.oauthbearer.extensions=logicalCluster=lkc-1,identityPoolId=pool-1
""",
        "OAuthBearer",
        TRUSTED,
    ),
    "confluent platform oauth": Template(
        "oauth.properties",
        f"""bootstrap.servers=broker.example.com:9093
sasl.mechanism=OAUTHBEARER
security.protocol=SASL_SSL
ssl.truststore.location=/etc/kafka/client.truststore.jks
ssl.truststore.password={SECRET}
sasl.login.callback.handler.class={MODULE}.oauthbearer.OAuthBearerLoginCallbackHandler
sasl.login.connect.timeout.ms=15000 # optional
sasl.oauthbearer.token.endpoint.url=https://idp.example.com/token
sasl.jaas.config={_OAUTH} \\
  clientId="me" \\
  clientSecret="{SECRET}" \\
  scope="kafka"; # optional
""",
        "OAuthBearer",
        {"cafile": "/etc/kafka/client.truststore.jks", "check_hostname": True},
        "sasl.login.callback.handler.class, sasl.login.connect.timeout.ms",
    ),
    "a connect worker": Template(
        "connect-distributed.properties",
        f"""bootstrap.servers=broker.example.com:9093
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=io.confluent.connect.avro.AvroConverter
value.converter.schema.registry.url=https://registry.example.com
offset.storage.topic=connect-offsets
offset.flush.interval.ms=10000
plugin.path=/usr/share/java
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={PLAIN} username="connect" password="{SECRET}";
producer.security.protocol=SASL_SSL
producer.sasl.mechanism=PLAIN
producer.sasl.jaas.config={PLAIN} username="connect" password="{SECRET}";
producer.interceptor.classes=io.confluent.monitoring.clients.interceptor.MonitoringProducerInterceptor
producer.confluent.monitoring.interceptor.sasl.jaas.config={PLAIN} username="connect" password="{SECRET}";
consumer.security.protocol=SASL_SSL
consumer.max.poll.records=100
admin.security.protocol=SASL_SSL
database.history.producer.sasl.mechanism=PLAIN
""",
        Plain("connect", SECRET),
        TRUSTED,
        "consumer.max.poll.records, producer.confluent.monitoring.interceptor.sasl.jaas.config, producer.interceptor.classes, "
        "value.converter.schema.registry.url",
        "database.history.producer.sasl.mechanism, key.converter, offset.flush.interval.ms, offset.storage.topic, plugin.path, "
        "value.converter",
        {},
        {"consumer_group": "connect-cluster"},
    ),
    "a connect worker with two logins": Template(
        "connect-distributed.properties",
        f"""bootstrap.servers=broker.example.com:9093
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={PLAIN} username="worker" password="{SECRET}";
producer.sasl.jaas.config={PLAIN} username="sink" password="{SECRET}";
""",
        refused="key producer.sasl.jaas.config, which is unknown; write it without 'producer': a client has one connection",
    ),
    "msk by iam": Template(
        "client.properties",
        """bootstrap.servers=b-1.mine.a1b2c3.c2.kafka.eu-north-1.amazonaws.com:9098
security.protocol=SASL_SSL
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="prod";
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
""",
        refused="tokens are signed by the package aws-msk-iam-sasl-signer-python, .*pip install aws-msk-iam-sasl-signer-python",
    ),
    "msk by scram": Template(
        "users_jaas.properties",
        f"""security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
ssl.truststore.location=/tmp/kafka.client.truststore.jks
sasl.jaas.config={_SCRAM} \\
  username="alice" \\
  password="{SECRET}";
""",
        Scram("alice", SECRET),
        {"cafile": "/tmp/kafka.client.truststore.jks", "check_hostname": True},
    ),
    "msk by certificates": Template(
        "client.properties",
        f"""security.protocol=SSL
ssl.truststore.location=/tmp/kafka.client.truststore.jks
ssl.keystore.location=/tmp/kafka.client.keystore.jks
ssl.keystore.password={SECRET}
ssl.key.password={SECRET}
""",
        None,
        {"certfile": "/tmp/kafka.client.keystore.jks", "password": SECRET},
    ),
    "event hubs java": Template(
        "consumer.config",
        f"""bootstrap.servers=mine.servicebus.windows.net:9093
group.id=$Default
request.timeout.ms=60000
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={PLAIN} username="$ConnectionString" \
password="Endpoint=sb://mine.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={SECRET}";
""",
        Plain(
            "$ConnectionString",
            f"Endpoint=sb://mine.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={SECRET}",
        ),
        TRUSTED,
        consumer={"consumer_group": "$Default"},
    ),
    "event hubs kcat": Template(
        "kcat.conf",
        f"""metadata.broker.list=mine.servicebus.windows.net:9093
security.protocol=SASL_SSL
sasl.mechanisms=PLAIN
sasl.username=$ConnectionString
sasl.password=Endpoint=sb://mine.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={SECRET}
api.version.request=true
""",
        Plain(
            "$ConnectionString",
            f"Endpoint=sb://mine.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={SECRET}",
        ),
        TRUSTED,
        "api.version.request",
    ),
    "aiven java": Template(
        "configuration.properties",
        f"""bootstrap.servers=kafka-1-mine.aivencloud.com:12345
security.protocol=SSL
ssl.protocol=TLS
ssl.key.password={SECRET}
ssl.keystore.location=client.keystore.p12
ssl.keystore.password={SECRET}
ssl.keystore.type=PKCS12
ssl.truststore.location=client.truststore.jks
ssl.truststore.password={SECRET}
ssl.truststore.type=JKS
""",
        None,
        {"cafile": "client.truststore.jks", "certfile": "client.keystore.p12", "password": SECRET},
    ),
    "aiven kcat": Template(
        "kcat.config",
        """bootstrap.servers=kafka-1-mine.aivencloud.com:12345
security.protocol=ssl
ssl.key.location=service.key
ssl.certificate.location=service.cert
ssl.ca.location=ca.pem
""",
        None,
        {"cafile": "ca.pem", "certfile": "service.cert", "keyfile": "service.key"},
    ),
    "redpanda": Template(
        "rp.properties",
        f"""bootstrap.servers=seed-1a2b.mine.fmc.prd.cloud.redpanda.com:9092
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config={_SCRAM} username="me" password="{SECRET}";
key.serializer=org.apache.kafka.common.serialization.StringSerializer
value.deserializer=org.apache.kafka.common.serialization.StringDeserializer
""",
        Scram("me", SECRET, "SCRAM-SHA-256"),
        TRUSTED,
        "key.serializer, value.deserializer",
    ),
    "upstash": Template(
        "config.properties",
        f"""bootstrap.servers=mine-12345-eu1-kafka.upstash.io:9092
sasl.mechanism=SCRAM-SHA-256
security.protocol=SASL_SSL
sasl.jaas.config={_SCRAM} \\
    username="bWluZS0xMjM0NSQ" \\
    password="{SECRET}";
""",
        Scram("bWluZS0xMjM0NSQ", SECRET, "SCRAM-SHA-256"),
        TRUSTED,
    ),
    "instaclustr": Template(
        "consumer.properties",
        f"""bootstrap.servers=10.0.0.1:9092,10.0.0.2:9092,10.0.0.3:9092
ssl.enabled.protocols=TLSv1.2,TLSv1.1,TLSv1
ssl.truststore.location=truststore.jks
ssl.truststore.password=instaclustr
ssl.protocol=TLS
ssl.endpoint.identification.algorithm=
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config={_SCRAM} \\
username="ickafka" \\
password="{SECRET}";
""",
        Scram("ickafka", SECRET, "SCRAM-SHA-256"),
        {"cafile": "truststore.jks", "ca_password": "instaclustr", "check_hostname": False},
    ),
    "ibm event streams": Template(
        "producer.properties",
        f"""bootstrap.servers=broker-0-1a2b.kafka.svc01.eu-de.eventstreams.cloud.ibm.com:9093
sasl.jaas.config={PLAIN} username="token" password="{SECRET}";
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
ssl.protocol=TLSv1.2
ssl.enabled.protocols=TLSv1.2
ssl.endpoint.identification.algorithm=HTTPS
acks=1
""",
        Plain("token", SECRET),
        {"check_hostname": True, "versions": ("TLSv1.2", "TLSv1.2")},
        producer={"required_acks": 1},
    ),
    "oracle streaming": Template(
        "oci.properties",
        f"""bootstrap.servers=cell-1.streaming.eu-frankfurt-1.oci.oraclecloud.com:9092
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={PLAIN} username="mine/a.b@example.com/ocid1.streampool.oc1.x" password="{SECRET}";
max.request.size=1048576
max.partition.fetch.bytes=1048576
""",
        Plain("mine/a.b@example.com/ocid1.streampool.oc1.x", SECRET),
        TRUSTED,
        producer={"max_request_size": 1 << 20},
        consumer={"fetch_message_max_bytes": 1 << 20},
    ),
    "heroku": Template(
        "heroku.properties",
        """bootstrap.servers=ec2-1.compute-1.amazonaws.com:9096
security.protocol=SSL
ssl.endpoint.identification.algorithm=
ssl.truststore.type=PEM
ssl.truststore.certificates=-----BEGIN CERTIFICATE----- QUJD -----END CERTIFICATE-----
ssl.keystore.type=PEM
ssl.keystore.certificate.chain=-----BEGIN CERTIFICATE-----\\nQUJE\\n-----END CERTIFICATE-----
ssl.keystore.key=-----BEGIN PRIVATE KEY----- \\
  QUJF \\
  -----END PRIVATE KEY-----
""",
        None,
        {
            "cafile": "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n",
            "certfile": "-----BEGIN PRIVATE KEY-----\nQUJF\n-----END PRIVATE KEY-----\n"
            "-----BEGIN CERTIFICATE-----\nQUJE\n-----END CERTIFICATE-----\n",
            "check_hostname": False,
        },
    ),
    "digital ocean": Template(
        "kafkacat.conf",
        f"""bootstrap.servers=mine-do-user-1-0.c.db.ondigitalocean.com:25073
security.protocol=sasl_ssl
sasl.mechanisms=SCRAM-SHA-256
sasl.username=doadmin
sasl.password={SECRET}
ssl.ca.location=./ca-certificate.crt
debug=security,broker
""",
        Scram("doadmin", SECRET, "SCRAM-SHA-256"),
        {"cafile": "./ca-certificate.crt"},
        "debug",
    ),
    "strimzi": Template(
        "strimzi.properties",
        f"""bootstrap.servers=my-cluster-kafka-bootstrap:9093
security.protocol=SASL_SSL
ssl.truststore.location=/opt/kafka/ca.p12
ssl.truststore.password={SECRET}
ssl.truststore.type=PKCS12
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={_SCRAM} username="my-user" password="{SECRET}";
""",
        Scram("my-user", SECRET),
        {"cafile": "/opt/kafka/ca.p12", "ca_password": SECRET},
    ),
    "strimzi oauth": Template(
        "oauth.properties",
        f"""bootstrap.servers=my-cluster-kafka-bootstrap:9093
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.login.callback.handler.class=io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler
sasl.jaas.config={_OAUTH} oauth.client.id="me" oauth.client.secret="{SECRET}" \\
  oauth.token.endpoint.uri="https://sso.example.com/token";
""",
        refused="sasl.login.callback.handler.class names a Java class, which is not called here: write "
        "oauth.token.endpoint.uri as sasl.oauthbearer.token.endpoint.url",
    ),
    "streamnative": Template(
        "sn.properties",
        f"""bootstrap.servers=mine.aws-euw1.streamnative.aws.snio.cloud:9093
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={PLAIN} username="unused" password="token:{SECRET}";
""",
        Plain("unused", f"token:{SECRET}"),
        TRUSTED,
    ),
    "streamnative oauth": Template(
        "sn.properties",
        f"""security.protocol=SASL_SSL
sasl.login.callback.handler.class=io.streamnative.pulsar.handlers.kop.security.oauth.OauthLoginCallbackHandler
sasl.mechanism=OAUTHBEARER
sasl.jaas.config={_OAUTH} oauth.issuer.url="https://auth.example.com" oauth.credentials.url="file:///k.json";
""",
        refused="names a Java class, which is not called here: write the address of the tokens as",
    ),
    "warpstream": Template(
        "warp.conf",
        f"""bootstrap.servers=serverless.warpstream.com:9092
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.username=ccun_1
sasl.password=ccp_{SECRET}
topic.metadata.refresh.interval.ms=60000
client.id=app,ws_host_override=10.0.0.1
""",
        Plain("ccun_1", f"ccp_{SECRET}"),
        TRUSTED,
    ),
    "tencent ckafka": Template(
        "kafka.properties",
        f"""## ckafka
bootstrap.servers=ckafka-1a2b3c.ap-singapore.ckafka.tencentcloudmq.com:50001
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config={PLAIN} username="ckafka-1a2b3c#me" password="{SECRET}";
topic=mine
group.id=a
""",
        Plain("ckafka-1a2b3c#me", SECRET),
        None,
        "",
        "topic",
        {},
        {"consumer_group": "a"},
    ),
    "alibaba": Template(
        "kafka.properties",
        f"""bootstrap.servers=alikafka-pre-cn-1-1.alikafka.aliyuncs.com:9093
security.protocol=SASL_SSL
ssl.truststore.location=/etc/mix.4096.client.truststore.jks
ssl.truststore.password=KafkaOnsClient
ssl.endpoint.identification.algorithm=
sasl.mechanism=PLAIN
sasl.jaas.config={PLAIN} username="me" password="{SECRET}";
""",
        Plain("me", SECRET),
        {"cafile": "/etc/mix.4096.client.truststore.jks", "check_hostname": False},
    ),
    "alibaba's demos": Template(
        "kafka.properties",
        """bootstrap.servers=alikafka-pre-cn-1-1.alikafka.aliyuncs.com:9093
topic=mine
java.security.auth.login.config=/etc/kafka_client_jaas.conf
ssl.truststore.location=/etc/mix.4096.client.truststore.jks
""",
        refused="java.security.auth.login.config cannot be used: files of JAAS are not read; write the entry",
    ),
    "google": Template(
        "client.properties",
        f"""bootstrap.servers=bootstrap.mine.europe-west1.managedkafka.mine.cloud.goog:9092
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.login.callback.handler.class=com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler
sasl.jaas.config={_OAUTH};
""",
        refused="sasl.login.callback.handler.class names a Java class, .* sasl=OAuthBearer.* tokens of the package google-auth",
    ),
    "google by a key": Template(
        "client.properties",
        f"""bootstrap.servers=bootstrap.mine.europe-west1.managedkafka.mine.cloud.goog:9092
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={PLAIN} username="me@mine.iam.gserviceaccount.com" password="{SECRET}";
""",
        Plain("me@mine.iam.gserviceaccount.com", SECRET),
        TRUSTED,
    ),
}
