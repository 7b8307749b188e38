import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

seen = 0


class Seen(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(seen).encode())

    def log_message(self, *_):
        pass


def main(brokers: str, topic: str, port: str) -> None:
    def consume():
        global seen
        settings = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = KafkaConsumer(topic, bootstrap_servers=brokers, **settings)
        for message in consumer:
            seen += 1
            where = TopicPartition(message.topic, message.partition)
            consumer.commit({where: OffsetAndMetadata(message.offset + 1, "", -1)})

    threading.Thread(target=consume, daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", int(port)), Seen).serve_forever()


main(*sys.argv[1:4])
