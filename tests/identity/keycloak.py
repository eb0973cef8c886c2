"""Keycloak for tests: the distribution from Maven Central, downloaded once, over TLS on a loopback port.

Tests administer it by its REST API. Each run creates a certificate, which clients trust if they get its file.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from uuid import uuid4
from zipfile import ZipFile

import httpx
from catalog.dynamodb_local import unavailable
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from deltaic_ops.local.embedded import free_port
from deltaic_terminal.environment import machine

VERSION: Final = "24.0.5"
ARCHIVE: Final = machine().cache / f"keycloak-quarkus-dist-{VERSION}.zip"
ARTIFACT: Final = f"org.keycloak:keycloak-quarkus-dist:{VERSION}:zip"
KEY_PROVIDER: Final = "org.keycloak.keys.KeyProvider"
# Keycloak runs only for a minute: compiling its code well, or verifying it, would take longer than it saves.
_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
_VARIABLES: Final = {"KEYCLOAK_ADMIN": "admin", "JAVA_OPTS_APPEND": _JAVA_OPTIONS}


@dataclass(frozen=True)
class Keycloak:
    """Running Keycloak, with one realm."""

    port: int
    certificate: Path
    """Certificate that clients must trust."""
    password: str
    realm: str = "acme"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)

    @property
    def issuer(self) -> str:
        return f"{self.url}/realms/{self.realm}"

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Send a request as the administrator; return the response, if it has content."""
        form = {"grant_type": "password", "client_id": "admin-cli", "username": "admin", "password": self.password}
        with httpx.Client(verify=self.trust, timeout=60) as client:
            response = client.post(f"{self.url}/realms/master/protocol/openid-connect/token", data=form)
            headers = {"Authorization": f"Bearer {response.raise_for_status().json()['access_token']}"}
            answer = client.request(method, f"{self.url}/admin/realms{path}", json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def token(self, client_id: str, secret: str) -> str:
        """Return a token for a client."""
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
        url = f"{self.issuer}/protocol/openid-connect/token"
        answer = httpx.post(url, data=form, verify=self.trust, timeout=60)
        return str(answer.raise_for_status().json()["access_token"])

    def signing_keys(self) -> list[str]:
        """Return the kids of the published signing keys."""
        answer = httpx.get(f"{self.issuer}/protocol/openid-connect/certs", verify=self.trust, timeout=60)
        return [key["kid"] for key in answer.json()["keys"] if key["use"] == "sig"]


@contextmanager
def started(folder: Path) -> Iterator[Keycloak]:
    """Run Keycloak during the block, with its program in the folder; skip the test if it is not available."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or (maven is None and not ARCHIVE.is_file()):
        unavailable("Keycloak needs Java 17, and Maven on the first run")
    if not ARCHIVE.is_file():
        _download(str(maven))
    with ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    certificate, key = _create_certificate(folder)
    keycloak = Keycloak(free_port(), certificate, uuid4().hex)
    log = folder / "log"
    options = [f"--https-certificate-file={certificate}", f"--https-certificate-key-file={key}"]
    options += [
        "--http-host=127.0.0.1",
        f"--http-port={free_port()}",
        f"--https-port={keycloak.url.rpartition(':')[2]}",
    ]
    with log.open("wb") as sink:
        process = subprocess.Popen(  # the script replaces itself with the server by exec
            ["bash", str(folder / f"keycloak-{VERSION}" / "bin" / "kc.sh"), "start-dev", "--db=dev-mem", *options],
            env={**os.environ, **_VARIABLES, "KEYCLOAK_ADMIN_PASSWORD": keycloak.password},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
    try:
        _wait(process, keycloak, log)
        yield keycloak
    finally:
        process.terminate()
        process.wait(60)


def _download(maven: str) -> None:
    """Copy the distribution to the cache, completely or not at all."""
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    partial = ARCHIVE.with_name(f"{ARCHIVE.name}.{uuid4().hex}")
    command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={partial}"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if result.returncode != 0:
            unavailable(f"Keycloak could not be downloaded from Maven Central:\n{result.stdout[-2000:]}")
        (partial / ARCHIVE.name).replace(ARCHIVE)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _create_certificate(folder: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate for this machine; return its file and that of its key."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=12))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(signed.public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, private


def _wait(process: subprocess.Popen[bytes], keycloak: Keycloak, log: Path) -> None:
    deadline = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(httpx.HTTPError):
            httpx.get(f"{keycloak.url}/realms/master", verify=keycloak.trust, timeout=10).raise_for_status()
            return
        time.sleep(0.5)
    unavailable(f"Keycloak did not start:\n{log.read_text(errors='replace')[-2000:]}")
