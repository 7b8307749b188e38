import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pykafka import KafkaClient

seen = 0


class Seen(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(seen).encode())

    def log_message(self, *_: object) -> None:
        pass


def main(brokers: str, topic: str, port: str) -> None:
    def consume() -> None:
        global seen
        for record in consumer:
            seen += 1
            consumer.commit_async(record)

    with KafkaClient(brokers) as client, client.consumer(topic, group=topic) as consumer:
        threading.Thread(target=consume, daemon=True).start()
        ThreadingHTTPServer(("127.0.0.1", int(port)), Seen).serve_forever()


main(*sys.argv[1:4])
