#!/bin/sh
# End with one sentence when there is no Java that real Kafka and Spark run on.
set -eu
java=java
[ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
if ! words=$("$java" -version 2>&1); then
    echo "$1: real Kafka and Spark need a JDK 17, and there is no \`$java\` here: install one (Debian: apt install openjdk-17-jdk-headless) or set JAVA_HOME" >&2
    exit 1
fi
major=$(printf '%s\n' "$words" | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
if [ -n "$major" ] && [ "$major" -lt 17 ]; then
    echo "$1: real Kafka and Spark need a JDK 17 or later, and \`$java\` is version $major: install one, or set JAVA_HOME to it" >&2
    exit 1
fi
