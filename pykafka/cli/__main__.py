"""The module behind `python -m pykafka.cli`: kafka-tools if the script is not on the path."""

from pykafka.cli import main

main()
