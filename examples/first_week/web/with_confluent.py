import sys
from concurrent.futures import Future

from confluent_kafka import KafkaException, Producer
from flask import Flask, request

app = Flask(__name__)
producer = Producer({"bootstrap.servers": sys.argv[1], "linger.ms": 0})


@app.post("/")
def produce():
    stored = Future()

    def tell(error, message):
        if error is None:
            stored.set_result(message.offset())
        else:
            stored.set_exception(KafkaException(error))

    producer.produce(sys.argv[2], request.get_data(), on_delivery=tell)
    producer.flush(10)  # waits for the messages of all other requests, too
    return {"offset": stored.result(0)}


app.run(port=int(sys.argv[3]))
