"""TLS by an SslConfig: producing and consuming, a certificate that is not trusted, a file that is not there."""

import sys

from pykafka import KafkaClient, SslConfig
from pykafka.exceptions import KafkaException, NoBrokersAvailableError

hosts, zookeeper, name, group, secure_hosts, authority = sys.argv[1:7]
config = SslConfig(cafile=authority, certfile=None, keyfile=None, password=None)
client = KafkaClient(hosts=secure_hosts, ssl_config=config)
topic = client.topics[name.encode("ascii")]
with topic.get_producer(linger_ms=10, partitioner=lambda partitions, key: partitions[0]) as producer:
    for number in range(5):
        producer.produce(b"secret %d" % number)
consumer = topic.get_simple_consumer(group, consumer_timeout_ms=800, auto_commit_enable=True)
print([message.value for message in consumer])
consumer.stop()
print("{}:{}".format(client.brokers[1].host.decode(), client.brokers[1].port) in secure_hosts)
try:
    KafkaClient(hosts=hosts, ssl_config=config, socket_timeout_ms=2000)
except NoBrokersAvailableError:
    print("the port is not one for TLS")
except Exception as error:
    print(type(error))
try:
    KafkaClient(hosts=secure_hosts, ssl_config=SslConfig(cafile="/nowhere.pem"))
except (IOError, KafkaException) as error:
    print("no such file", isinstance(error, IOError))
