"""What a server says of itself before it is loaded: that it is there, which models it serves, whether it is a stand-in.

http.client, not httpx: it is loaded in a tenth of the time, and the first request should not wait for that.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tuner.benchmarks.http import Target
from tuner.errors import TunerError

TIMEOUT_S = 10.0
STAND_IN = "tuner-simulated"
MOST_BYTES = 4 * 2**20


class NotYet(TunerError):
    """A server does not answer, or not yet as it will: it may be starting."""


@dataclass(frozen=True)
class Asker:
    """How servers are asked."""

    headers: Mapping[str, str]
    insecure: bool = False
    timeout_s: float = TIMEOUT_S

    @property
    def tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def first_model(self, url: str) -> str:
        """The first of the server's /v1/models.

        Raises:
            TunerError: it does not answer with a list of models.
        """
        names = self.models(url)
        if not names:
            raise NotYet(f"{url} serves no model (GET /v1/models names none); give --model if it has one")
        return names[0]

    def models(self, url: str) -> list[str]:
        """Every model it serves.

        Raises:
            TunerError: it does not answer with a list of models.
        """
        reply = self._get(url, "/v1/models")
        if reply.status in (401, 403):
            raise TunerError(
                f"{url} wants a key ({reply.status} {reply.reason}): set OPENAI_API_KEY, or give "
                "--header Authorization='Bearer ...'"
            )
        if reply.status != 200:
            raise NotYet(str(_other_server(url, f"{reply.status} {reply.reason}".strip())))
        try:
            return [str(entry["id"]) for entry in json.loads(reply.body)["data"]]
        except (ValueError, LookupError, TypeError, RecursionError):
            is_json = "json" in reply.media
            raise _other_server(url, "no list of models" if is_json else "not JSON") from None

    def reach(self, url: str) -> None:
        """That something answers there, whatever it says; or at least lets itself be connected to.

        Raises:
            TunerError: nothing does, or it cannot be trusted.
        """
        target = Target.parse(url)
        made = self._connection(target)
        try:
            with self._named(url, "connecting"):
                made.connect()
        finally:
            made.close()
        try:
            reply = self._get(url, "/v1/models")
        except NotYet:  # some have no list and no manners; the load will tell
            return
        if reply.status == 503:
            raise NotYet(f"{url} is not ready ({reply.status} {reply.reason})")

    def is_stand_in(self, url: str) -> bool:
        """Whether it is one of the simulated engines; they say so in every reply."""
        try:
            return self._get(url, "/health").server == STAND_IN
        except TunerError:
            return False

    def _get(self, url: str, path: str) -> _Reply:
        target = Target.parse(url)
        made = self._connection(target)
        try:
            with self._named(url, f"GET {path}"):
                made.request("GET", f"{target.base}{path}", headers=dict(self.headers))
                reply = made.getresponse()
                media, server = (reply.getheader(name, "") for name in ("content-type", "server"))
                body = reply.read(MOST_BYTES)
        finally:
            made.close()
        if reply.status == 400 and b"HTTPS port" in body:
            raise _is_tls(url)
        return _Reply(reply.status, reply.reason, body, media, server)

    def _connection(self, target: Target) -> http.client.HTTPConnection:
        if target.tls:
            return http.client.HTTPSConnection(target.host, target.port, timeout=self.timeout_s, context=self.tls)
        return http.client.HTTPConnection(target.host, target.port, timeout=self.timeout_s)

    @contextmanager
    def _named(self, url: str, what: str) -> Iterator[None]:
        """Errors of the connection in one line."""
        try:
            yield
        except TimeoutError:
            way_out = "does it speak TLS?" if url.startswith("https:") else "is the server up?"
            raise NotYet(f"{url} had no answer within {self.timeout_s:g} s ({what}); {way_out}") from None
        except ssl.SSLCertVerificationError as error:
            message = f"{url}: its certificate is not trusted ({error.verify_message}); --insecure trusts any"
            raise TunerError(message) from None
        except ssl.SSLError as error:
            message = f"{url} does not speak TLS ({error.reason or error}); is it an http:// server?"
            raise TunerError(message) from None
        except (OSError, http.client.HTTPException) as error:
            if url.startswith("http:") and what != "connecting" and self._speaks_tls(url):
                raise _is_tls(url) from None
            why = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
            raise NotYet(f"{url} does not answer ({why}); is the server up?") from None

    def _speaks_tls(self, url: str) -> bool:
        target, context = Target.parse(url), ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with socket.create_connection((target.host, target.port), self.timeout_s) as plain:
                context.wrap_socket(plain).close()
            return True
        except OSError:
            return False


@dataclass(frozen=True)
class _Reply:
    status: int
    reason: str
    body: bytes
    media: str
    server: str


def _is_tls(url: str) -> TunerError:
    return TunerError(f"{url} speaks TLS; give https{url.removeprefix('http')}")


def _other_server(url: str, got: str) -> TunerError:
    return TunerError(
        f"{url} answers, but not as an OpenAI-compatible server (GET /v1/models: {got}); "
        "give its base URL, or --model if it only lacks the list"
    )
