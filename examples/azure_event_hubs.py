"""Log in to Azure Event Hubs by Entra ID: `python -m examples.azure_event_hubs NAMESPACE.servicebus.windows.net`.

It needs `pip install azure-identity`, and an identity that `DefaultAzureCredential` finds (the environment, `az login`, the
managed identity of the machine) with a role such as "Azure Event Hubs Data Sender". Event Hubs listens for Kafka clients on
port 9093.
"""

from __future__ import annotations

import sys

from azure.identity import DefaultAzureCredential  # type: ignore[import-not-found, unused-ignore]

from pykafka import KafkaClient, OAuthBearer, OAuthToken


def credentials(namespace: str) -> OAuthBearer:
    """Return credentials for one namespace; the client asks for a new token before each ends.

    :param namespace: its host name
    """
    identity = DefaultAzureCredential()

    def token() -> OAuthToken:
        found = identity.get_token(f"https://{namespace}/.default")
        return OAuthToken(found.token, expires_at=found.expires_on)

    return OAuthBearer(token)


def main(namespace: str, brokers: str = "", tls: bool = True) -> None:
    """Print the names of the namespace's event hubs, which are topics."""
    with KafkaClient(brokers or f"{namespace}:9093", tls=tls or None, sasl=credentials(namespace)) as client:
        for name in sorted(client.topics):
            print(name)


if __name__ == "__main__":
    main(sys.argv[1])
