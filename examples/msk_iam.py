"""Log in to AWS MSK by IAM: `python -m examples.msk_iam BROKERS REGION`.

It needs `pip install aws-msk-iam-sasl-signer-python`, and AWS credentials where that package looks for them (the environment, a
profile, the role of the machine). Brokers listen for IAM on port 9098.
"""

from __future__ import annotations

import sys

from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # type: ignore[import-not-found, unused-ignore]

from pykafka import KafkaClient, OAuthBearer, OAuthToken


def credentials(region: str) -> OAuthBearer:
    """Return credentials whose tokens are signed for a region; the client asks for a new one before each ends."""

    def token() -> OAuthToken:
        value, expires_at_ms = MSKAuthTokenProvider.generate_auth_token(region)
        return OAuthToken(value, expires_at=expires_at_ms / 1000)

    return OAuthBearer(token)


def main(brokers: str, region: str, tls: bool = True) -> None:
    """Print the names of the cluster's topics."""
    with KafkaClient(brokers, tls=tls or None, sasl=credentials(region)) as client:
        for name in sorted(client.topics):
            print(name)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
