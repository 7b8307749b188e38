"""`Registry`: a schema registry, by the HTTP API of `/subjects` and `/schemas`."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from pykafka.exceptions import RegistryError, RegistryUnavailableError, SchemaError, SchemaNotFoundError
from pykafka.handlers.threads import ThreadingHandler
from pykafka.registry.schemas import AVRO, Reference, Registered, Schema
from pykafka.security.cleartext import warn_of_cleartext_registry
from pykafka.security.mechanism import redacted
from pykafka.utils.backoff import Backoff
from pykafka.utils.error_handlers import valid_bool
from pykafka.utils.redact import concealing

if TYPE_CHECKING:
    from urllib.request import Request

    from pykafka.handlers.base import Handler
    from pykafka.security.http import Answer
    from pykafka.security.ssl_config import SslConfig

#: How long the registry is not asked again for an unknown id (s).
UNKNOWN_S = 60.0
#: The longest answer of a registry (bytes).
ANSWER_MAX = 16 * 1024 * 1024
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_CONTENT = "application/vnd.schemaregistry.v1+json"
_REDIRECTS, _CLIENT_ERRORS, _RETRIED, _SERVER_ERRORS = 300, 400, {408, 429}, 500
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT = 401, 403, 404, 409
#: The error codes of a registry for an unknown subject, version or schema.
_NO_SUCH = {40401, 40402, 40403}
_PAUSE_MS, _MAX_PAUSE_MS = 100, 5_000
#: A try with less time (s) does not replace an earlier error.
_SHORT_TRY_S = 1.0
#: The largest id: a registry's are int32, though a record may have any four bytes.
ID_MAX = 2**31 - 1
#: Statuses of a registry that knows no such path, as of GUIDs, or no such kind of id; and of what stands at a wrong address.
_NO_SUCH_PATH = {400, 404, 422}
#: A path that each registry knows, and nothing else: it answers with a list.
_SUBJECTS = "/subjects?limit=1"
#: How many unknown ids are kept: any record can have one.
UNKNOWN_MAX = 10_000
#: What to do about errors of TLS, by words of OpenSSL's.
_REMEDIES = {
    "mismatch": "use an address that the certificate names",
    "expired": "the registry needs a new certificate",
    "not yet valid": "check the clocks of both machines",
    "self-signed": "give the cafile of its authority, or of the certificate itself if it has signed itself",
    "unable to get": "give the cafile of its authority",
    "wrong version number": "it speaks no TLS there: is its address http://, or its port another one?",
    "certificate required": "it asks clients for a certificate: give certfile and keyfile",
}
_BAD_TOKEN = (
    "the token of the schema registry is empty, or has a character that no HTTP header can have, such as a space or the end "
    "of a line: correct it"
)


class Registry:
    """A schema registry.

    It keeps no connection, and no lock: the schema of an id or a version never changes, and is cached by single stores.
    Requests that fail by the network, or by the service itself, are retried with growing pauses until the deadline.

    :param urls: where it is, such as "https://registry.example.org"; several are asked in turn
    :param handler: supplies the clock, pauses, and workers for requests; None for the thread that calls, as of serializers
    :param user: of a login by user and password
    :param password: of that user
    :param token: a bearer token, or a function that returns one
    :param ssl_config: the certificates for https; None for those of the system
    :param request_timeout_ms: how long one request may take (ms)
    :param timeout_ms: how long to try altogether (ms)
    :param allow_cleartext_credentials: log no warning when a password or token is sent by http://
    :raises ValueError: a URL is none, or there are two logins
    """

    @concealing
    def __init__(
        self,
        urls: str | Sequence[str],
        handler: Handler | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        token: str | Callable[[], str] | None = None,
        ssl_config: SslConfig | None = None,
        request_timeout_ms: int = 10_000,
        timeout_ms: int = 60_000,
        allow_cleartext_credentials: bool = False,
    ) -> None:
        self._urls = check_urls(urls)
        if (user is None) != (password is None):
            raise ValueError("user and password of the schema registry go together: give both, or none")
        if user is not None and token is not None:
            raise ValueError("a schema registry takes user and password, or a token: not both")
        if isinstance(token, str) and not _fits_header(token):
            raise ValueError(_BAD_TOKEN)
        if not valid_bool(allow_cleartext_credentials, "allow_cleartext_credentials"):
            warn_of_cleartext_registry(list(self._urls), "password" if user is not None else "token" if token else "")
        if handler is None:
            handler = ThreadingHandler()
        self._handler = handler
        self._login = None if user is None else base64.b64encode(f"{user}:{password}".encode()).decode()
        self._password = password
        self._token = token
        self._ssl_config = ssl_config
        self._request_timeout_s = request_timeout_ms / 1000
        self._timeout_s = timeout_ms / 1000
        self._backoff = Backoff(_PAUSE_MS, _MAX_PAUSE_MS, handler.random)
        self._by_id: dict[int | str, Schema] = {}
        self._by_version: dict[tuple[str, int], Registered] = {}
        #: {id: until when the registry is not asked for it}
        self._unknown: dict[int | str, float] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(self._urls)}>"

    def schema(self, key: int | str) -> Schema:
        """Return the schema of an id or a GUID.

        :raises SchemaNotFoundError: the registry has none; it is not asked again for a minute
        :raises RegistryError: it refuses, or cannot be reached
        """
        found = self._by_id.get(key)
        if found is None:
            if isinstance(key, int) and key > ID_MAX:
                raise SchemaNotFoundError(_no_schema(key, self))
            until = self._unknown.get(key)
            if until is not None and self._handler.now() < until:
                raise SchemaNotFoundError(_no_schema(key, self))
            path = f"/schemas/guids/{quote(key, safe='')}" if isinstance(key, str) else f"/schemas/ids/{key}"
            try:
                found = self._by_id[key] = _schema(self._ask("GET", path), self)
            except RegistryError as error:
                if not self._lacks_schema(error):
                    raise
                if len(self._unknown) >= UNKNOWN_MAX:
                    self._unknown.clear()
                self._unknown[key] = self._handler.now() + UNKNOWN_S
                raise SchemaNotFoundError(_no_schema(key, self)) from error
            self._unknown.pop(key, None)
        return found

    def _lacks_schema(self, error: RegistryError) -> bool:
        """Return whether a request for a schema has failed as the registry does not have it: then the record is to blame.

        A registry refuses ids that it never gives, and GUIDs if it has none, without its code for an unknown schema. What
        stands in the registry's place during an outage, or at a wrong address, does the same: so another request follows.

        :raises RegistryUnavailableError: there is no answer in time to that one
        """
        if isinstance(error, SchemaNotFoundError):
            return True
        if error.status not in _NO_SUCH_PATH:
            return False
        try:
            self._ask("GET", _SUBJECTS)
        except RegistryUnavailableError:
            raise
        except RegistryError:
            return False
        return True

    def latest(self, subject: str) -> Registered:
        """Return the newest version in a subject.

        :raises SchemaNotFoundError: there is no such subject
        :raises RegistryError: the registry refuses, or cannot be reached
        """
        return self._keep(self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest"))

    def version(self, subject: str, number: int) -> Registered:
        """Return a version in a subject.

        :raises SchemaNotFoundError: there is no such subject or version
        :raises RegistryError: the registry refuses, or cannot be reached
        """
        found = self._by_version.get((subject, number))
        return found or self._keep(self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{number}"))

    def look_up(self, subject: str, schema: Schema) -> Registered:
        """Return the version of a subject that is this schema.

        :raises SchemaNotFoundError: the subject does not have it
        :raises RegistryError: the registry refuses, or cannot be reached
        """
        return self._keep(self._ask("POST", f"/subjects/{quote(subject, safe='')}", _body(schema)))

    def register(self, subject: str, schema: Schema) -> Registered:
        """Add a schema to a subject, unless the subject has it; return its version.

        :raises RegistryError: the schema is invalid or not compatible with the subject's others, the registry refuses, or it
            cannot be reached
        """
        answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", _body(schema))
        if not isinstance(answer.get("id"), int):
            raise _unexpected_answer(self)
        return self.look_up(subject, schema)

    def needed(self, schema: Schema) -> dict[str, Schema]:
        """Return the schemas that a schema refers to, by name, each behind those that it refers to itself.

        :raises SchemaNotFoundError: one of them is not there
        :raises SchemaError: they refer to each other in a circle
        :raises RegistryError: the registry refuses, or cannot be reached
        """
        found: dict[str, Schema] = {}
        self._gather(schema, found, ())
        return found

    def _gather(self, schema: Schema, found: dict[str, Schema], around: tuple[Reference, ...]) -> None:
        for one in schema.references:
            if one in around:
                raise SchemaError(f"version {one.version} of {one.subject} refers to itself, by what it refers to")
            if one.name not in found:
                used = self.version(one.subject, one.version).schema
                self._gather(used, found, (*around, one))
                found[one.name] = used

    def _keep(self, answer: Mapping[str, Any]) -> Registered:
        try:
            made = Registered(
                answer["subject"], int(answer["version"]), int(answer["id"]), _schema(answer, self), answer.get("guid")
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            raise _unexpected_answer(self) from None
        texts: tuple[Any, ...] = (made.subject, "" if made.guid is None else made.guid)
        if not 0 <= made.id <= ID_MAX or not all(isinstance(text, str) for text in texts):
            raise _unexpected_answer(self)
        known = self._by_id.get(made.id)
        if known is not None and not known.says_the_same(made.schema):
            raise self.replaced(made.id)
        self._by_version[made.subject, made.version] = made
        self._by_id[made.id] = made.schema
        return made

    def replaced(self, number: int | str) -> RegistryError:
        """Return the error about an id that has become another schema's."""
        return RegistryError(
            f"{self!r} has another schema {number} than before: it was created again, or its addresses are of different "
            "registries, so the schema of a record is not certain: start again with the right registry"
        )

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer to a request.

        :raises RegistryError: it is refused, or there is no answer in time
        """
        deadline = self._handler.now() + self._timeout_s
        failures, data = 0, None if body is None else json.dumps(body).encode()
        said: RegistryUnavailableError | None = None
        #: When each address may be asked again.
        available_at = dict.fromkeys(self._urls, 0.0)
        url = self._urls[0]
        while True:
            left = min(self._request_timeout_s, deadline - self._handler.now())
            try:
                return self._handler.offload(self._exchange, url, method, path, data, max(left, 0.001))
            except RegistryUnavailableError as error:
                failures += 1
                # The last try may have little time: an error before it says more.
                said = error if said is None or left >= _SHORT_TRY_S else said
                now = self._handler.now()
                available_at[url] = now + error.retry_after_s
                url, asked_s = self._next(failures, available_at, now)
                pause = max(self._backoff.seconds(failures) if failures % len(self._urls) == 0 else 0.0, asked_s)
                if now + pause >= deadline:
                    raise _unavailable(said, failures, self._timeout_s, asked_s) from None
            self._handler.sleep(pause)

    def _next(self, failures: int, available_at: Mapping[str, float], now: float) -> tuple[str, float]:
        """Return the address to ask next, the one that is available first, and how long to wait for it (s).

        :param failures: how many requests have failed
        :param available_at: when each address may be asked again
        :param now: on the same clock
        """
        first = failures % len(self._urls)
        waits = [
            (max(round(available_at[url] - now, 3), 0.0), turn)
            for turn, url in enumerate((*self._urls[first:], *self._urls[:first]))
        ]
        wait, turn = min(waits)
        return self._urls[(first + turn) % len(self._urls)], wait

    @concealing
    def _exchange(self, url: str, method: str, path: str, data: bytes | None, seconds: float) -> Any:
        """Make one request, in any OS thread.

        :param seconds: how long it may take (s)
        """
        # Here, since these modules take longer to import than all of a client's.
        from pykafka.security.http import HandshakeError, NoAnswerError, NotTrustedError, exchange

        token = self._token() if callable(self._token) else self._token
        secrets = [text for text in (self._password, self._login, token) if text]
        if token is not None and not _fits_header(token):  # HTTP's own error would show it
            raise RegistryError(_BAD_TOKEN)
        request = self._request(url + path, method, data, token)
        try:
            answer = exchange(request, self._ssl_config, seconds, ANSWER_MAX + 1)
        except NotTrustedError as error:
            raise RegistryError(
                f"the certificate of the schema registry {url} is not trusted ({error}): {_remedy(str(error))}"
            ) from None
        except HandshakeError as error:
            raise RegistryError(f"TLS with the schema registry {url} fails ({error}): {_remedy(str(error))}") from None
        except NoAnswerError as error:
            said = redacted(str(error), *secrets)
            raise RegistryUnavailableError(f"the schema registry {url} does not answer: {said}") from None
        if answer.status >= _REDIRECTS:
            raise _refused(url, method, path, answer, secrets)
        try:
            found = json.loads(answer.body) if len(answer.body) <= ANSWER_MAX else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list if path == _SUBJECTS else dict):
            raise _unexpected_answer(self)
        return found

    def _request(self, url: str, method: str, data: bytes | None, token: str | None) -> Request:
        from urllib.request import Request

        headers = {"Accept": _ACCEPT}
        if data is not None:
            headers["Content-Type"] = _CONTENT
        if self._login is not None:
            headers["Authorization"] = f"Basic {self._login}"
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return Request(url, data, headers, method=method)


def check_urls(urls: str | Sequence[str]) -> tuple[str, ...]:
    """Return the addresses of a registry, without a slash at their end.

    :param urls: one, or several, or several in one text with commas
    :raises ValueError: one is no URL, or has a user in it
    """
    written = urls.split(",") if isinstance(urls, str) else urls
    found = tuple(url.strip().rstrip("/") for url in written)
    for url in found:
        # Also without a scheme: the text before the @ may be a password, which no error may show.
        if "@" in url:
            raise ValueError("the URL of a schema registry must not contain a user: give user and password, or a token")
        if "?" in url or "#" in url:  # which may have a key
            raise ValueError("the URL of a schema registry must not contain ? or #: give its address only")
        if not _is_url(url):
            raise ValueError(
                f"{url!r} is no URL of a schema registry: it must begin with https:// or http://, with a host, and a port that "
                "is a number"
            )
    if not found:
        raise ValueError("there is no URL of a schema registry")
    return found


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises an error if it is none
    except ValueError:
        return False
    return parts.scheme in {"https", "http"} and bool(parts.hostname) and url.isprintable() and " " not in url


def _fits_header(token: str) -> bool:
    return bool(token) and token.isascii() and token.isprintable() and " " not in token


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != AVRO:
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [vars(reference) for reference in schema.references]
    return body


def _schema(answer: Mapping[str, Any], registry: Registry) -> Schema:
    try:
        references = tuple(
            Reference(str(reference["name"]), str(reference["subject"]), int(reference["version"]))
            for reference in answer.get("references") or ()
        )
        text = answer["schema"]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise _unexpected_answer(registry) from None
    if not isinstance(text, str):
        raise _unexpected_answer(registry)
    return Schema(str(answer.get("schemaType") or AVRO).upper(), text, references)


def _remedy(said: str) -> str:
    """Return what to do about an error of TLS.

    :param said: by OpenSSL
    """
    words = said.lower().replace("_", " ")
    for part, remedy in _REMEDIES.items():
        if part in words:
            return remedy
    return "check its address, and that certfile and keyfile are of a client that it knows"


def _unavailable(said: Exception, failures: int, seconds: float, asked_s: float) -> RegistryUnavailableError:
    times = "once" if failures == 1 else f"{failures} times"
    waiting = f", and asks for a pause of {asked_s:g} s: give it a longer time" if asked_s >= seconds else ""
    made = RegistryUnavailableError(
        f"{said}; it was asked {times} in {seconds:g} s{waiting}"
        + ("" if waiting else ": check its address, that the service is up, and the network between")
    )
    made.retry_after_s = asked_s
    return made


def _unexpected_answer(registry: Registry) -> RegistryError:
    return RegistryError(f"{registry!r} answers what no schema registry does: is that its address?")


def _no_schema(key: int | str, registry: Registry) -> str:
    return f"schema {key} is not in {registry!r}: it was never registered there, or was deleted"


def _refused(url: str, method: str, path: str, answer: Answer, secrets: Sequence[str]) -> RegistryError:
    code, said, status = None, "", answer.status
    try:
        words = json.loads(answer.body)
        code, said = words.get("error_code"), str(words.get("message") or "")
    except (ValueError, AttributeError, RecursionError):
        pass  # an answer of something before the registry, whose status says enough
    said = redacted(said, *secrets)
    text = f"the schema registry {url} answers {status} to {method} {path}" + (f": {said}" if said else "")
    if status in _RETRIED or status >= _SERVER_ERRORS:
        unavailable = RegistryUnavailableError(text)
        unavailable.retry_after_s = answer.retry_after_s
        return unavailable
    if status == _NOT_FOUND and isinstance(code, int) and code in _NO_SUCH:
        return SchemaNotFoundError(text)
    if status < _CLIENT_ERRORS:
        return RegistryError(f"{text}; it leads elsewhere, where no login is sent: give the address that it leads to")
    remedy = {
        _UNAUTHORIZED: "check its user and password, or its token",
        _FORBIDDEN: "this login may not do that: ask for the right",
        _NOT_FOUND: "is that its address?",
        _CONFLICT: "the schema is not compatible with others of its subject: change it, or the subject's compatibility",
    }.get(status, "check the request against what the registry says")
    refused = RegistryError(f"{text}; {remedy}")
    refused.status = status
    return refused
