import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from confluent_kafka import Consumer, KafkaException

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
        settings = {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": brokers, **settings})
        consumer.subscribe([topic])
        while True:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            seen += 1
            consumer.commit(message, asynchronous=True)

    threading.Thread(target=consume, daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", int(port)), Seen).serve_forever()


main(*sys.argv[1:4])
