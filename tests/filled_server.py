"""A sharing server filled by a declared list of tables, recipients and storages: what tests of a whole server start.

It runs over an AWS of its own or over one that runs already, through a proxy if need be. Tables lie there, or in a
storage that is declared (SeaweedFS, ...); the test writes them, or copies a folder. `fill` alone fills any catalog.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import boto3
from contract.recipient import Recipient
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.credentials.token_admin import IssuedToken
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Recipient as Account
from deltaic.sign_in.activation import profile
from deltaic_ops.deploy.sam_template import load_template
from deltaic_ops.local.resources import DATA_BUCKET, PARAMETERS, connect, prepare
from deltaic_ops.local.stack import Stack, gateway_over, local_stack

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True)
class Entry:
    """A table as the catalog has it; a schema where no table is named, a share where no schema is."""

    share: str
    schema: str = ""
    table: str = ""
    location: str = ""
    """A URL, or a folder of the bucket; the table's name, if it is not said."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of what is named last."""

    @property
    def url(self) -> str:
        return self.location if "://" in self.location else f"s3://{DATA_BUCKET}/{self.location or self.table}"


@dataclass(frozen=True)
class Reader:
    """A recipient and its token."""

    account: Account
    issued: IssuedToken

    @property
    def id(self) -> str:
        return self.account.id

    @property
    def token(self) -> str:
        return self.issued.secret


def fill(
    admin: CatalogAdmin,
    entries: Iterable[Entry] = (),
    recipients: Mapping[str, Sequence[str]] = NOTHING,
    storages: Mapping[str, Mapping[str, Any]] = NOTHING,
) -> dict[str, Reader]:
    """Make what is declared, recipients with the shares that they are granted; returns them with a token each."""
    for name, options in storages.items():
        admin.storages.create(name, **options)
    created: set[tuple[str, ...]] = set()
    for entry in entries:
        share, schema = (entry.share,), (entry.share, entry.schema)
        if share not in created:
            admin.shares.create(*share, **({} if entry.schema else entry.options))
        if entry.schema and schema not in created:
            admin.schemas.create(*schema, **({} if entry.table else entry.options))
        if entry.table:
            admin.tables.create(*schema, entry.table, entry.url, **entry.options)
        created |= {share, schema}
    readers = {}
    for name, shares in recipients.items():
        account = admin.recipients.create(name)
        for granted in shares:
            admin.grants.create(name, granted)
        readers[name] = Reader(account, admin.tokens.create(account))
    return readers


@dataclass(frozen=True, repr=False)
class FilledServer:
    """A running server, its catalog, and its recipients by name."""

    stack: Stack
    admin: CatalogAdmin
    readers: Mapping[str, Reader]
    folder: Path
    """Where each recipient's profile lies."""

    @classmethod
    @contextmanager
    def running(
        cls,
        folder: Path,
        entries: Iterable[Entry] = (),
        recipients: Mapping[str, Sequence[str]] = NOTHING,
        storages: Mapping[str, Mapping[str, Any]] = NOTHING,
        *,
        aws: Mapping[str, str] | None = None,
        variables: Mapping[str, str] = NOTHING,
        parameters: Mapping[str, str] = NOTHING,
    ) -> Iterator[Self]:
        """Start and fill it, over the AWS that `aws` names, if it does.

        Then `variables` are the functions' own (AWS_ENDPOINT_URL: by which way they reach it). `parameters` are the
        template's.
        """
        os.environ.setdefault("POWERTOOLS_METRICS_DISABLED", "true")  # inherited by the gateway's process
        settings = {"LogLevel": "ERROR", **parameters}
        state = folder / "state"
        with (
            local_stack(state, parameters=settings) if aws is None else _over(aws, state, variables, settings) as stack
        ):
            admin = catalog_of(stack.environment)
            server = cls(stack, admin, fill(admin, entries, recipients, storages), folder)
            yield server.reached_by(stack.endpoint, folder)
            stack.check()

    def reached_by(self, endpoint: str, folder: Path) -> Self:
        """Return the same server as it is seen through another endpoint; profiles that name it go into the folder."""
        server = replace(self, stack=replace(self.stack, endpoint=endpoint), folder=folder)
        for name, reader in self.readers.items():
            server.profile_of(name).write_text(profile(endpoint, reader.issued), encoding="utf-8")
        return server

    def __repr__(self) -> str:
        """Be short where a failing test shows its arguments."""
        return f"<{type(self).__name__} at {self.endpoint}>"

    @property
    def endpoint(self) -> str:
        return self.stack.endpoint

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of its administrator."""
        return self.stack.environment

    def client(self, service: Any) -> Any:
        return client_of(service, self.environment)

    def recipient(self, name: str) -> Recipient:
        """Return a recipient, to ask by plain HTTP."""
        return Recipient(self.endpoint, self.readers[name].token)

    def profile_of(self, name: str) -> Path:
        return self.folder / f"{name}.share"

    def upload(self, folder: Path, prefix: str) -> None:
        """Copy a folder into the bucket; commits after all else and in their order, since S3 gives them their times."""
        s3 = self.client("s3")
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        commits = [path for path in files if path.parent.name == "_delta_log" and path.suffix == ".json"]

        def put(path: Path) -> None:
            key = f"{prefix}/{path.relative_to(folder).as_posix()}"
            s3.put_object(Bucket=DATA_BUCKET, Key=key, Body=path.read_bytes())

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(put, [path for path in files if path not in commits]))
        for path in commits:
            put(path)


@contextmanager
def _over(
    aws: Mapping[str, str], state: Path, variables: Mapping[str, str], parameters: Mapping[str, str]
) -> Iterator[Stack]:
    template = load_template(parameters={**PARAMETERS, **parameters})
    prepare(template, connect(aws))
    with gateway_over({**template.environment, **aws, **variables}, state) as stack:
        yield replace(stack, environment={**aws, **stack.environment, "DELTAIC_ENDPOINT": stack.endpoint})


def catalog_of(environment: Mapping[str, str]) -> CatalogAdmin:
    """Return the administration of the catalog that a stack's variables name."""
    secrets = cache(lambda: client_of("secretsmanager", environment))
    return CatalogAdmin(environment["CATALOG_TABLE"], environment["TOKENS_TABLE"], dynamo_of(environment), secrets)


def dynamo_of(environment: Mapping[str, str]) -> Dynamo:
    return Dynamo(lambda: client_of("dynamodb", environment))


def client_of(service: Any, environment: Mapping[str, str]) -> Any:
    """Return a client of the AWS that a stack's variables name."""
    session = boto3.Session(
        environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], region_name=environment["AWS_REGION"]
    )
    return session.client(service, endpoint_url=environment["AWS_ENDPOINT_URL"])
