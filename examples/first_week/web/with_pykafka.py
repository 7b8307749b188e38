import sys

from flask import Flask, request

from pykafka import KafkaClient

app = Flask(__name__)
producer = KafkaClient(sys.argv[1]).producer(linger_ms=0)


@app.post("/")
def produce() -> dict[str, int]:
    delivery = producer.produce(sys.argv[2], request.get_data()).get(timeout=10)
    return {"offset": delivery.offset}


app.run(port=int(sys.argv[3]))
