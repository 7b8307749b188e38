"""`python -m pykafka.cli`: kafka-tools where the script is not on the path."""

from pykafka.cli import main

main()
