"""Issuer of JWTs on this machine: discovery, keys that tests can change, a token endpoint with two grants."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

CURVES: Mapping[str, ec.EllipticCurve] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
Answer = Callable[[BaseHTTPRequestHandler], None]


def private_key(algorithm: str, bits: int = 2048) -> Any:
    """Return a new key for an algorithm."""
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm])
    return rsa.generate_private_key(65537, bits)


def public_jwk(key: Any, algorithm: str, kid: str) -> dict[str, Any]:
    """Return the public key as an issuer publishes it."""
    jwk = get_default_algorithms()[algorithm].to_jwk(key.public_key(), as_dict=True)
    return {**{name: jwk[name] for name in ("kty", "crv", "n", "e", "x", "y") if name in jwk}, "kid": kid, "use": "sig"}


@dataclass
class Issuer:
    """Keys and responses of an issuer, which a test can change while it runs."""

    url: str = ""
    keys: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """Algorithm and private key by kid; the last one signs."""
    asked: list[str] = field(default_factory=list)
    """Paths of the requests to the issuer."""
    answers: dict[str, Answer] = field(default_factory=dict)
    """Responses that replace the usual ones, by path."""
    secrets: dict[str, str] = field(default_factory=dict)
    """Secrets of clients, by id."""
    client_keys: dict[str, Any] = field(default_factory=dict)
    """Public keys of clients, by id."""
    claims: dict[str, Any] = field(default_factory=dict)
    """Claims that the token endpoint adds to its tokens."""
    life: int = 3600

    def rotate(self, kid: str, algorithm: str = "RS256", *, keep: bool = False) -> None:
        """Sign with a new key from now on; without `keep` the issuer publishes only this key."""
        self.keys = {**(self.keys if keep else {}), kid: (algorithm, private_key(algorithm))}

    def token(self, headers: Any = None, **claims: Any) -> str:
        """Return a signed token; None removes a default claim."""
        kid, (algorithm, key) = list(self.keys.items())[-1]
        now = int(time.time())
        usual: dict[str, Any] = {"iss": self.url, "aud": "deltaic", "sub": "alice", "iat": now, "exp": now + self.life}
        usual["jti"] = uuid4().hex
        present = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.api_jws.encode(json.dumps(present).encode(), key, algorithm, {"kid": kid, **(headers or {})})

    def discovery(self) -> dict[str, Any]:
        return {"issuer": self.url, "jwks_uri": f"{self.url}/keys", "token_endpoint": f"{self.url}/token"}

    def jwks(self) -> dict[str, Any]:
        return {"keys": [public_jwk(key, algorithm, kid) for kid, (algorithm, key) in self.keys.items()]}

    def grant(self, form: Mapping[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Return a response of the token endpoint, for client credentials or a signed assertion."""
        if form.get("grant_type") == "client_credentials":
            client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
            if self.secrets.get(client) != secret:
                return 401, {"error": "invalid_client"}
        else:
            assertion = form["assertion"]
            client = jwt.decode(assertion, options={"verify_signature": False})["iss"]
            jwt.decode(assertion, self.client_keys[client], algorithms=["RS256"], audience=self.url)
        token = self.token(sub=client, azp=client, **self.claims)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.life}


def send(handler: BaseHTTPRequestHandler, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
    """Send a response in JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content)


@contextmanager
def running(path: str = "") -> Iterator[Issuer]:
    """Start an issuer with one RSA key, `first`."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            try:
                if self.path in issuer.answers:
                    issuer.answers[self.path](self)
                elif self.path == f"{path}/.well-known/openid-configuration":
                    send(self, 200, issuer.discovery())
                elif self.path == f"{path}/keys":
                    send(self, 200, issuer.jwks())
                else:
                    send(self, 404, {})
            except OSError:
                pass  # the client has closed the connection

        def do_POST(self) -> None:
            issuer.asked.append(self.path)
            content = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(content).items()}
            send(self, *issuer.grant(form, self.headers.get("Authorization", "")))

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    issuer.url = f"http://127.0.0.1:{server.server_address[1]}{path}"
    issuer.rotate("first")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


__all__ = ["Issuer", "private_key", "public_jwk", "running", "send"]
