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

#: What OpenSSL says when both sides have no version of TLS in common.
_VERSION_REASONS = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "VERSION_TOO_LOW")
#: OpenSSL's codes of certificates that are not trusted (X509_V_ERR_...), and the sentences about them; `{host}`.
_NOT_YET_VALID, _EXPIRED, _REVOKED, _NO_LIST, _LIST_EXPIRED = 9, 10, 23, 3, 12
_NO_ISSUER, _NO_LOCAL_ISSUER, _NO_CHAIN = 2, 20, 21
_WEAK = (66, 67, 68)
_WRONG_NAMES = (62, 64)
_CERTIFICATE = {
    _NOT_YET_VALID: "the certificate of {host!r} is not valid yet ({message}); set the clock of this machine or of the broker "
    "right, or wait for the date from which it is valid",
    _EXPIRED: "the certificate of {host!r} has expired ({message}), or that of its authority; renew it on the broker, and look "
    "at the clock of this machine",
    _REVOKED: "the certificate of {host!r} was revoked by its authority ({message}); give the broker a new one, and do not "
    "trust whoever has the old one",
    _NO_LIST: "SslConfig's crlfile has no list of the authority that signed the certificate of {host!r} ({message}); add it",
    _LIST_EXPIRED: "the list of revoked certificates in SslConfig's crlfile is out of date ({message}); fetch the new one",
    **dict.fromkeys(
        (_NO_ISSUER, _NO_LOCAL_ISSUER, _NO_CHAIN),
        "the certificate of {host!r} is not trusted ({message}); give SslConfig the cafile of the authority that signed it; if "
        "it has that, the broker may not send the certificates between its own and that authority's: add them to its keystore",
    ),
    **dict.fromkeys(
        _WEAK,
        "the certificate of {host!r}, or that of its authority, is too weak for OpenSSL here ({message}); give the "
        "broker a new certificate, with RSA of 2048 bits or more, or EC, and SHA-256",
    ),
}
#: Parts of the alerts by which a broker refuses a client's certificate, and their sentences. Java's brokers say
#: "certificate unknown" of nearly all of them.
_REFUSALS = {
    "CERTIFICATE_REQUIRED": "it wants a client certificate: give SslConfig a certfile and keyfile that the broker trusts",
    "CERTIFICATE_EXPIRED": "the client certificate has expired: renew it, and give SslConfig the new certfile and keyfile",
    "CERTIFICATE_REVOKED": "the client certificate was revoked: give SslConfig a new certfile and keyfile",
    "UNKNOWN_CA": "the broker does not trust the authority of the client certificate: give SslConfig a certfile that an "
    "authority in the broker's truststore has signed, with the authorities between",
    "CERTIFICATE_UNKNOWN": "the broker does not accept the client certificate, which may have expired, or be of an authority "
    "that is not in the broker's truststore: give SslConfig a certfile and keyfile that the broker trusts",
    "UNSUPPORTED_CERTIFICATE": "the client certificate is of a kind that the broker does not take: it must be made for "
    "clients (extendedKeyUsage=clientAuth)",
    "DECRYPT_ERROR": "a signature is wrong: the private key may not belong to the certificate",
    "ACCESS_DENIED": "the broker does not let the client certificate in: look at its permissions on the broker",
    "BAD_CERTIFICATE": "it may ask for a client certificate, or not take ours: give SslConfig a certfile and keyfile that the "
    "broker trusts",
    "HANDSHAKE_FAILURE": "it may ask for a client certificate: give SslConfig a certfile and keyfile that the broker trusts; "
    "or both sides have no cipher in common",
    "INSUFFICIENT_SECURITY": "the broker wants stronger ciphers than this client offers: leave SslConfig's ciphers out",
    "UNRECOGNIZED_NAME": "the broker, or a proxy before it, does not know the host name: connect by the name that it "
    "advertises",
}


def explain_tls_error(error: Exception, host: str, note: str = "") -> str:
    """Return a sentence about the cause of a failed handshake and its remedy.

    :param error: what the handshake raised
    :param host: the broker's name or IP address
    :param note: what may be wrong with the client's certificate, as `SslConfig.identity_note` returns it
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error, host)
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or str(error)  # only OpenSSL's own errors have one
        if reason in PLAINTEXT_REASONS:
            return f"what answers does not speak TLS ({reason}); use the broker's TLS port, or leave ssl_config out"
        if any(word in reason for word in _VERSION_REASONS):
            return (
                f"this client and the broker have no version of TLS in common ({reason}); this client speaks TLSv1.2 and "
                "TLSv1.3, fewer if SslConfig's versions say so: enable one of them in the broker's ssl.enabled.protocols"
            )
        refused = explain_refusal(error, note)
        if refused is not None:
            return refused
        return f"the TLS handshake failed ({reason}); compare the broker's TLS versions and ciphers with ours"
    if isinstance(error, TimeoutError):
        return f"the TLS handshake was not answered in time; {NO_TLS_PORT}"
    if isinstance(error, (ConnectionError, EOFError)):
        return f"the connection was closed during the TLS handshake ({error}); {NO_TLS_PORT}"
    return str(error)


def explain_refusal(error: Exception, note: str = "") -> str | None:
    """Return the reason if the broker has refused this client; None if it has not.

    :param error: of the handshake, or of the first read: by TLS 1.3 the client has done its part before the broker refuses
    :param note: what may be wrong with the client's certificate, as `SslConfig.identity_note` returns it
    """
    reason = (getattr(error, "reason", None) or str(error)) if isinstance(error, ssl.SSLError) else ""
    words = reason.upper().replace(" ", "_")
    for word, sentence in _REFUSALS.items():
        if word in words:
            return f"the broker refused the handshake ({reason}); {sentence}{f' ({note})' if note else ''}"
    return None


def _explain_certificate(error: ssl.SSLCertVerificationError, host: str) -> str:
    message = error.verify_message or str(error)
    if error.verify_code in _WRONG_NAMES or "mismatch" in message.lower() or "not valid for" in message.lower():
        return (
            f"the certificate does not name {host!r} ({message}); connect by a name that it has, "
            "or have the broker's certificate made for this one"
        )
    sentence = _CERTIFICATE.get(error.verify_code)
    if sentence is not None:
        return sentence.format(host=host, message=message)
    return (
        f"the certificate of {host!r} is not trusted ({message}); "
        "give SslConfig the cafile of the authority that signed it"
    )
