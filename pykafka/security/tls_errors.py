"""explain_tls_error: what a failed TLS handshake means, and what to do about it."""

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


def explain_tls_error(error: Exception, host: str) -> str:
    """Return a sentence that says what went wrong in a handshake and what to do.

    :param error: what the handshake raised
    :param host: the broker's name or IP address
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error, host)
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or str(error)  # only OpenSSL's own errors have one
        if reason in PLAINTEXT_REASONS:
            return f"what answers does not speak TLS ({reason}); use the broker's TLS port, or leave ssl_config out"
        if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason or "BAD_CERTIFICATE" in reason:
            return (
                f"the broker refused the handshake ({reason}); it may ask for a client certificate: give SslConfig "
                "a certfile and keyfile that the broker trusts"
            )
        return f"the TLS handshake failed ({reason}); compare the broker's TLS versions and ciphers with ours"
    if isinstance(error, TimeoutError):
        return "the TLS handshake was not answered in time; the port may not be a TLS port"
    if isinstance(error, (ConnectionError, EOFError)):
        return f"the connection was closed during the TLS handshake ({error}); the port may not be a TLS port"
    return str(error)


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
