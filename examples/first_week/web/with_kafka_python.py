import sys

from flask import Flask, request
from kafka import KafkaProducer

app = Flask(__name__)
producer = KafkaProducer(bootstrap_servers=sys.argv[1], linger_ms=0)


@app.post("/")
def produce():
    stored = producer.send(sys.argv[2], request.get_data()).get(10)
    return {"offset": stored.offset}


app.run(port=int(sys.argv[3]))
