"""Kerberos for tests: Apache Kerby's KDC on 127.0.0.1, with keytabs of the brokers and of a user."""

from __future__ import annotations

from pathlib import Path

from tests.brokers.jars import classpath
from tests.brokers.process import JavaProcess, wait_until

JARS = ("org.apache.kerby:kerb-simplekdc:2.1.0", "org.slf4j:slf4j-nop:1.7.36")
REALM = "PYKAFKA.TEST"
HOST = "127.0.0.1"
#: The brokers' principal: what clients call `sasl.kerberos.service.name`, and the brokers' host name. A name, since Java's
#: client looks an address up.
SERVICE = "kafka"
BROKER_HOST = "localhost"
#: A service at the same host whose tickets the brokers cannot read.
OTHER_SERVICE = "other"
START_TIMEOUT_S = 90.0
_PROGRAM = Path(__file__).with_name("Kdc.java")


class Kdc:
    """A KDC with three principals: the brokers', `kafka/localhost`, the user's, and another service's.

    :param directory: for keytabs, configuration and log
    :param port: free, for TCP
    :param user: name of the user
    """

    def __init__(self, directory: Path, port: int, user: str) -> None:
        self.user = user
        self.principal = f"{user}@{REALM}"
        self.broker_principal = f"{SERVICE}/{BROKER_HOST}@{REALM}"
        self.keytab = directory / "user.keytab"
        self.broker_keytab = directory / "broker.keytab"
        #: For `KRB5_CONFIG`, and for Java's `java.security.krb5.conf`.
        self.config = directory / "krb5.conf"
        #: (TCP)
        self.port = port
        self._directory = directory
        work = directory / "kdc"
        work.mkdir()
        names = [self.principal, str(self.keytab), self.broker_principal, str(self.broker_keytab)]
        names += (f"{OTHER_SERVICE}/{BROKER_HOST}@{REALM}", str(directory / "other.keytab"))
        jars = classpath(JARS)
        command = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
        command += [str(_PROGRAM), REALM, str(port), str(work), *names]
        self._process = JavaProcess(command, directory / "kdc.out")
        self.config.write_text(self.configuration(port))

    @staticmethod
    def configuration(port: int) -> str:
        """Return the configuration of clients.

        :param port: where they find the KDC, on 127.0.0.1
        """
        return (
            f"[libdefaults]\ndefault_realm = {REALM}\n"
            # A name is what it is: no look-ups that depend on the machine.
            "dns_lookup_kdc = false\ndns_lookup_realm = false\ndns_canonicalize_hostname = false\nrdns = false\n"
            # The one way that this KDC listens, which Kerby's defaults and MIT's agree on.
            "udp_preference_limit = 1\nkdc_timeout = 5000\n"
            f"[realms]\n{REALM} = {{\n  kdc = {HOST}:{port}\n}}\n"
        )

    @property
    def jvm_option(self) -> str:
        """Return the option with which a JVM finds this KDC."""
        return f"-Djava.security.krb5.conf={self.config}"

    @property
    def broker_jaas(self) -> str:
        """Return the login of the brokers, as JAAS writes it."""
        return jaas(self.broker_keytab, self.broker_principal)

    @property
    def user_jaas(self) -> str:
        """Return the login of the user, as JAAS writes it."""
        return jaas(self.keytab, self.principal)

    def start(self) -> None:
        """Start the KDC, and wait until it answers; also after `kill()`.

        :raises BrokerSetupError: it does not come up
        """
        before = self._process.tail(1_000_000).count("ready")
        self._process.start()
        wait_until(
            lambda: self._process.tail(1_000_000).count("ready") > before, START_TIMEOUT_S, "the KDC", self._process
        )

    def kill(self) -> None:
        """End the KDC; a second call does nothing."""
        self._process.kill()


def jaas(keytab: Path, principal: str) -> str:
    """Return the entry of JAAS that logs in with a keytab."""
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{keytab}" principal="{principal}";'
    )
