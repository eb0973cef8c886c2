"""Decides which AWS and which tables a command means: what is told, else one of this machine, else AWS's own files."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.aws_errors import refused
from deltaic.catalog.buckets import Buckets
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Storage
from deltaic.errors import Conflict, NotFound, Unavailable
from deltaic.settings import Settings
from deltaic.urls import web_address

from deltaic_ops.cli.extras import missing_extra
from deltaic_ops.deploy.outputs import DEFAULT_STACK, JobsOutputs, StackOutputs, reachable, stack_outputs
from deltaic_ops.local.variables import THIS_MACHINE, check_answered, names_aws

if TYPE_CHECKING:
    import boto3
    from deltaic.storage.aws_credentials import Credentials
    from deltaic.storage.locations import AccessPoint

    from deltaic_ops.inspection.shared_schema import SchemaReader

_DEFAULTS = Settings()


@dataclass(frozen=True, slots=True)
class Wishes:
    """The global options as they were typed."""

    catalog: str | None = None
    tokens: str | None = None
    stack: str | None = None
    """Whose outputs name the tables; the embedded AWS has none, so it is not meant where one is named."""
    stack_first: bool = False
    """The stack goes before the variables that name tables."""
    profile: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    state: Path = Path(".deltaic")

    @property
    def stack_name(self) -> str:
        """The stack that is meant."""
        return self.stack or DEFAULT_STACK

    @property
    def variables(self) -> dict[str, str]:
        """The variables that say the same to another program, of what was said."""
        names = {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_PROFILE": self.profile,
            "AWS_REGION": self.region,
            "CATALOG_TABLE": self.catalog,
            "TOKENS_TABLE": self.tokens,
            "DELTAIC_STACK": self.stack,
        }
        return {name: value for name, value in names.items() if value}


class Connection:
    """One AWS account and region, and the tables in it.

    Tables: the options, else those of a stack that was typed, else CATALOG_TABLE and TOKENS_TABLE, else the stack's
    outputs, else the settings' defaults. A stack is asked only where nothing before it tells; one that was typed and
    is not there is refused.
    """

    def __init__(
        self,
        wishes: Wishes,
        variables: Mapping[str, str],
        session: "Callable[[], boto3.Session]",
        keys: "Credentials | None" = None,
    ) -> None:
        """`keys`: those of an AWS of which the variables tell all."""
        self._wishes = wishes
        self._variables = variables
        self._session = session
        self._keys = keys

    @cached_property
    def catalog_table(self) -> str:
        """The table of shares, recipients and grants."""
        return self._told[0] or (self.outputs.catalog_table if self.outputs else _DEFAULTS.catalog_table)

    @cached_property
    def tokens_table(self) -> str:
        """The table of bearer tokens."""
        return self._told[1] or (self.outputs.tokens_table if self.outputs else _DEFAULTS.tokens_table)

    @property
    def stack(self) -> str:
        """The name of the stack that is meant."""
        return self._wishes.stack_name

    @property
    def region(self) -> str:
        """The region that is meant."""
        return self._wishes.region or self._variables.get("AWS_REGION") or str(self._session().region_name)

    @property
    def tables_are_told(self) -> bool:
        """Whether options or variables name both tables, so that no stack is needed to find them."""
        return all(self._told)

    @property
    def _told(self) -> tuple[str | None, str | None]:
        wishes = self._wishes
        return wishes.catalog or self._variable("CATALOG_TABLE"), wishes.tokens or self._variable("TOKENS_TABLE")

    @cached_property
    def sharing_endpoint(self) -> str:
        """What profiles name as endpoint; empty if nothing tells it."""
        told = self._variable("DELTAIC_ENDPOINT")
        where = self._wishes.endpoint_url or self._variables.get("AWS_ENDPOINT_URL") or ""
        return told or (reachable(self.outputs.endpoint, where) if self.outputs else "")

    @property
    def serves_iceberg(self) -> bool:
        """Whether the server that `sharing_endpoint` names serves Iceberg's clients, as far as anything tells."""
        if self._variable("DELTAIC_ENDPOINT"):
            return bool(self._variables.get("ICEBERG_BUCKET"))
        return bool(self.outputs and self.outputs.iceberg_bucket)

    def answers_ipv6(self) -> bool:
        """Return whether recipients can come by IPv6, as far as a stack tells."""
        return self.outputs is None or self.outputs.answers_ipv6

    @cached_property
    def jobs(self) -> JobsOutputs:
        """Where the stack runs Spark jobs; raises NotFound, which says how it comes to."""
        if self.outputs is None or self.outputs.jobs is None:
            raise NotFound(
                f"no stack '{self.stack}' that runs Spark jobs is found: deploy it with SparkJobs=enabled, "
                "or name another by --stack"
            )
        return self.outputs.jobs

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which another program reaches the same AWS and the same tables."""
        tables = {"CATALOG_TABLE": self.catalog_table, "TOKENS_TABLE": self.tokens_table}
        return {**self._variables, **self._wishes.variables, "AWS_REGION": self.region, **tables}

    def client(self, service: Any) -> Any:
        """Return a client for one service."""
        endpoint_url = self._endpoint(str(service))
        if endpoint_url is not None:
            # botocore's refusals of what is no endpoint are of many kinds and name no remedy.
            web_address(endpoint_url)
        from deltaic.storage.aws_client import CATALOG, botocore_config

        # The catalog answers in a moment or not at all; to start a job or to take a package may last.
        config = botocore_config(CATALOG) if service in {"dynamodb", "secretsmanager"} else None
        return self._session().client(service, endpoint_url=endpoint_url, config=config)

    def dynamo(self) -> Dynamo:
        """Return the catalog's way to DynamoDB, over this connection."""
        if self._keys is None:
            return Dynamo(lambda: self.client("dynamodb"))
        from deltaic.storage.aws_client import CATALOG, AwsClient

        keys, endpoint = self._keys, self._endpoint("dynamodb") or ""

        def connect() -> Any:
            return AwsClient("dynamodb", self.region, endpoint, timeouts=CATALOG, credentials=lambda: keys)

        return Dynamo(connect)

    def schemas(self, storage: Callable[[str], Storage]) -> "SchemaReader":
        """Return what reads the schemas of tables with this connection's credentials; `storage` finds storages."""
        from deltaic.storage.endpoints import StorageConfig
        from deltaic.storage.sessions import SigningSessions

        from deltaic_ops.inspection.shared_schema import SchemaReader

        endpoint = self._endpoint("s3") or ""
        home = StorageConfig(region=self.region, endpoint=endpoint, path_style=bool(endpoint))
        sessions = SigningSessions(region=self.region, endpoint=endpoint, client=self.client)
        return SchemaReader(home, self._credentials, sessions, storage)

    def admin(self, dynamo: Dynamo | None = None) -> CatalogAdmin:
        """Return the catalog, over this connection or with another way to its DynamoDB."""
        buckets = Buckets(self._own_buckets, cache(self._bucket_behind))
        names, secrets = (self.catalog_table, self.tokens_table), lambda: self.client("secretsmanager")
        return CatalogAdmin(*names, dynamo or self.dynamo(), secrets, buckets, self.answers_ipv6)

    def _own_buckets(self) -> set[str]:
        stack = None if self._keys else self.outputs  # this machine's AWS has variables instead of a stack
        names = {self._variables.get("ICEBERG_BUCKET", "")}
        if stack is not None:
            names |= {stack.iceberg_bucket, stack.jobs.bucket if stack.jobs else ""}
        return names - {""}

    def _bucket_behind(self, point: "AccessPoint") -> str:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            client = self._session().client("s3control", point.region, endpoint_url=self._endpoint("s3-control"))
            return str(client.get_access_point(AccountId=point.account, Name=point.name)["Bucket"])
        except (BotoCoreError, ClientError):  # somebody else's, or no right to ask
            return ""

    def _credentials(self) -> "Credentials":
        from deltaic.storage.aws_credentials import Credentials

        if self._keys is not None:
            return self._keys
        found = self._session().get_credentials()
        if found is None:  # told when the connection was made
            raise Unavailable("there are no AWS credentials any more: set AWS_PROFILE or the AWS variables")
        try:
            keys = found.get_frozen_credentials()
        except Exception as error:
            raise refused(error) from error
        return Credentials(keys.access_key or "", keys.secret_key or "", keys.token or "")

    def _endpoint(self, service: str) -> str | None:
        """Return where a service is; None for AWS, or where the profile says."""
        own = f"AWS_ENDPOINT_URL_{service.upper().replace('-', '_')}"
        return self._wishes.endpoint_url or self._variables.get(own) or self._variables.get("AWS_ENDPOINT_URL") or None

    @cached_property
    def outputs(self) -> StackOutputs | None:
        """What the stack says; None if it cannot be asked, since the tables may be reachable all the same.

        One that was typed is asked, or else refused: NotFound, or what AWS refuses.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return stack_outputs(self.client("cloudformation"), self.stack)
        except (NotFound, BotoCoreError, ClientError) as error:
            if not self._wishes.stack_first:
                return None
            raise (error if isinstance(error, NotFound) else refused(error)) from error

    def _variable(self, name: str) -> str | None:
        """Return the value of a variable that names a part of a stack; None if a stack was typed, which wins."""
        return None if self._wishes.stack_first else self._variables.get(name)


@contextmanager
def connection(wishes: Wishes) -> Iterator[Connection]:
    """Find out which AWS is meant and connect to it; an embedded one that only this command starts ends with the block.

    A server that is starting in the state folder, or another command there, is waited for. Raises NotFound when no AWS
    is meant, Conflict when another process keeps the state folder, Unavailable when what was to start there does not,
    PermissionDenied, InvalidParameter.
    """
    told = dict(os.environ)
    with ExitStack() as parts:
        environment = _embedded(wishes, told, parts)
        variables = {**told, **environment}
        if not environment and (endpoint := wishes.endpoint_url or told.get("AWS_ENDPOINT_URL")):
            again = 'start it, as `deltaic serve` does, and take its variables again: eval "$(deltaic env)"'
            check_answered(endpoint, again)
        keys = _keys(wishes, environment or told)
        session = cache(partial(_session, wishes, environment, told))
        if keys is None:
            session()  # refused now, and not when a client is needed
        yield Connection(wishes, variables, session, keys)


def _embedded(wishes: Wishes, variables: Mapping[str, str], parts: ExitStack) -> Mapping[str, str]:
    """Return the variables of this machine's AWS, if it is what is meant: running, or started until `parts` end."""
    from deltaic_ops.local.private import StateUnusable
    from deltaic_ops.local.state import LOCK, StateInUse, locked
    from deltaic_ops.localstack.running import running

    state = wishes.state
    folder = state / "aws"
    if wishes.profile or wishes.endpoint_url or names_aws(variables):
        return {}
    if (localstack := running(state)) is not None:
        return localstack.environment
    if wishes.stack is not None or not (folder.is_dir() or (state / LOCK).exists()):
        return {}  # the embedded AWS has no stacks
    try:
        lock = parts.enter_context(locked(state))
    except StateInUse as error:
        if error.environment is None:
            raise Conflict(str(error)) from error
        return error.environment
    except StateUnusable as error:
        raise Unavailable(str(error)) from error
    return _started(state, lock, parts) if folder.is_dir() else {}


def _started(state: Path, lock: int, parts: ExitStack) -> Mapping[str, str]:
    if remedy := missing_extra("local"):
        raise Unavailable(remedy)
    from deltaic_ops.deploy.template import load_template
    from deltaic_ops.local.embedded import EmbeddedAws
    from deltaic_ops.local.private import StateUnusable
    from deltaic_ops.local.resources import PARAMETERS

    functions = load_template(parameters=PARAMETERS).environment
    told = ("CATALOG_TABLE", "TOKENS_TABLE", "SIGNING_ROLE_ARN", "ICEBERG_BUCKET")
    tables = {name: functions[name] for name in told if name in functions}
    try:
        aws = parts.enter_context(EmbeddedAws(state, lock=lock))
    except (StateUnusable, RuntimeError) as error:
        raise Unavailable(str(error)) from error
    return {**aws.environment, **tables}


def _keys(wishes: Wishes, variables: Mapping[str, str]) -> "Credentials | None":
    """Return the keys of an AWS on this machine of which the variables tell all; else None.

    Its catalog is asked without boto3, whose imports would be most of a command's time. Whatever else AWS's own files
    and variables may say (profiles, proxies, authorities) is about another one.
    """
    from deltaic.storage.aws_credentials import Credentials

    place = web_address(wishes.endpoint_url or variables.get("AWS_ENDPOINT_URL") or "https://aws")
    region = wishes.region or variables.get("AWS_REGION")
    key, secret = variables.get("AWS_ACCESS_KEY_ID"), variables.get("AWS_SECRET_ACCESS_KEY")
    if place.hostname not in THIS_MACHINE or wishes.profile or variables.get("AWS_PROFILE"):
        return None
    return Credentials(key, secret, variables.get("AWS_SESSION_TOKEN", "")) if key and secret and region else None


def _session(wishes: Wishes, environment: Mapping[str, str], variables: Mapping[str, str]) -> "boto3.Session":
    import boto3

    try:
        session = boto3.Session(
            profile_name=wishes.profile,
            region_name=wishes.region or {**variables, **environment}.get("AWS_REGION"),
            aws_access_key_id=environment.get("AWS_ACCESS_KEY_ID"),
            aws_secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY"),
        )
        known = session.get_credentials() is not None
    except Exception as error:
        raise refused(error) from error
    if not known:
        raise NotFound(
            f"no AWS is named and none runs in {wishes.state.absolute()}: set AWS_PROFILE or the AWS variables, "
            "name the folder of a running one with --state, or start one here with `deltaic serve`"
        )
    if session.region_name is None:
        raise NotFound("no AWS region is named: give --region or AWS_REGION")
    return session
