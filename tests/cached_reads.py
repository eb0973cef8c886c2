"""Read once per process what boto3 and httpx read for each session or client, of which tests create thousands."""

import os
import ssl
from functools import cache
from typing import Any

import httpx
from botocore.loaders import JSONFileLoader, Loader
from httpx import _transports


def cache_reads() -> None:
    """Cache the models and names of AWS's services, and the certificates of all authorities.

    They take a quarter of a second for a new session of boto3, and 40 ms for each client or request of httpx.
    """
    load_file, list_services = cache(JSONFileLoader().load_file), Loader.list_available_services
    create_context = httpx.create_ssl_context
    services: dict[tuple[str, ...], Any] = {}

    def list_once(loader: Loader, type_name: str) -> Any:
        key = (type_name, *loader.search_paths)
        if key not in services:
            services[key] = list_services(loader, type_name)
        return services[key]

    @cache
    def authorities(*_variables: str | None) -> ssl.SSLContext:
        return create_context()

    def create_once(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        if verify is True and cert is None and trust_env:
            return authorities(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        return create_context(verify, cert, trust_env)

    JSONFileLoader.load_file = lambda _, path: load_file(path)  # type: ignore[assignment,method-assign]
    Loader.list_available_services = list_once  # type: ignore[assignment,method-assign]
    httpx.create_ssl_context = _transports.default.create_ssl_context = create_once  # type: ignore[attr-defined]
