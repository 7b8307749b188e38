"""explain_tls_error: the meaning of a failed TLS handshake, and the remedy."""

from __future__ import annotations

import ssl

#: What OpenSSL says when it is answered by something that does not speak TLS.
PLAINTEXT_REASONS = {
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "UNKNOWN_PROTOCOL",
    "WRONG_VERSION_NUMBER",
}

NO_TLS_PORT = "the port may not be a TLS port: use the broker's TLS port, or leave ssl_config out"


def explain_tls_error(error: Exception, host: str) -> str:
    """Return a sentence about the cause of a failed handshake and its remedy.

    :param error: what the handshake raised
    :param host: the broker's name or IP address
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error, host)
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or str(error)  # only OpenSSL's own errors have one
        if reason in PLAINTEXT_REASONS:
            return f"what answers does not speak TLS ({reason}); use the broker's TLS port, or leave ssl_config out"
        refused = explain_refusal(error)
        if refused is not None:
            return refused
        return f"the TLS handshake failed ({reason}); compare the broker's TLS versions and ciphers with ours"
    if isinstance(error, TimeoutError):
        return f"the TLS handshake was not answered in time; {NO_TLS_PORT}"
    if isinstance(error, (ConnectionError, EOFError)):
        return f"the connection was closed during the TLS handshake ({error}); {NO_TLS_PORT}"
    return str(error)


def explain_refusal(error: Exception) -> str | None:
    """Return what it means where the broker has refused this client; None where it has not.

    :param error: of the handshake, or of the first read: by TLS 1.3 the client has done its part before the broker refuses
    """
    reason = (getattr(error, "reason", None) or str(error)) if isinstance(error, ssl.SSLError) else ""
    if not any(word in reason for word in ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE")):
        return None
    return (
        f"the broker refused the handshake ({reason}); it may ask for a client certificate: give SslConfig "
        "a certfile and keyfile that the broker trusts"
    )


def _explain_certificate(error: ssl.SSLCertVerificationError, host: str) -> str:
    message = error.verify_message or str(error)
    if "mismatch" in message.lower() or "not valid for" in message.lower():
        return (
            f"the certificate does not name {host!r} ({message}); connect by a name that it has, "
            "or have the broker's certificate made for this one"
        )
    return (
        f"the certificate of {host!r} is not trusted ({message}); "
        "give SslConfig the cafile of the authority that signed it"
    )
