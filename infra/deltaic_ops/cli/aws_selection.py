"""Select the AWS account and tables of a command: from options and variables, the local server, or AWS config files."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.aws_errors import to_operator_error
from deltaic.catalog.buckets import Buckets
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Storage
from deltaic.errors import NotFound, Unavailable
from deltaic.settings import Settings
from deltaic.urls import parse_endpoint

from deltaic_ops.deploy.outputs import DEFAULT_STACK, JobsOutputs, StackOutputs, reachable_endpoint, stack_outputs
from deltaic_ops.local.aws_variables import THIS_MACHINE, check_reachable, selects_aws

if TYPE_CHECKING:
    import boto3
    from deltaic.storage.aws_credentials import Credentials
    from deltaic.storage.locations import AccessPoint

    from deltaic_ops.inspection.shared_schema import SchemaReader

_DEFAULTS = Settings()


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The global options of the command line; None or the default if not given."""

    catalog: str | None = None
    tokens: str | None = None
    stack: str | None = None
    """Stack whose outputs name the DynamoDB tables. It excludes the built-in AWS emulator, which has no stacks."""
    stack_first: bool = False
    """Whether the stack takes precedence over environment variables that name the tables."""
    profile: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    state: Path = Path(".deltaic")

    @property
    def stack_name(self) -> str:
        """The name of the selected stack."""
        return self.stack or DEFAULT_STACK

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that pass the same options to another program."""
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
    """Connection to an AWS account and region, and Deltaic's DynamoDB tables in it.

    The names of the tables come from the first of: the options, the outputs of a stack named on the command line,
    CATALOG_TABLE and TOKENS_TABLE, the outputs of the default stack, the default settings. The stack is read only if
    necessary; a stack named on the command line must exist.
    """

    def __init__(
        self,
        options: GlobalOptions,
        variables: Mapping[str, str],
        session: "Callable[[], boto3.Session]",
        keys: "Credentials | None" = None,
    ) -> None:
        """Create a connection; `keys` are credentials of a local AWS that environment variables describe completely."""
        self._options = options
        self._variables = variables
        self._session = session
        self._keys = keys

    @cached_property
    def catalog_table(self) -> str:
        """The name of the DynamoDB table of shares, recipients and grants."""
        return self._table_names[0] or (self.outputs.catalog_table if self.outputs else _DEFAULTS.catalog_table)

    @cached_property
    def tokens_table(self) -> str:
        """The name of the DynamoDB table of bearer tokens."""
        return self._table_names[1] or (self.outputs.tokens_table if self.outputs else _DEFAULTS.tokens_table)

    @property
    def stack(self) -> str:
        """The name of the selected stack."""
        return self._options.stack_name

    @property
    def region(self) -> str:
        """The selected AWS region."""
        return self._options.region or self._variables.get("AWS_REGION") or str(self._session().region_name)

    @property
    def has_table_names(self) -> bool:
        """Return whether options or environment variables name both tables, so that no stack is needed."""
        return all(self._table_names)

    @property
    def _table_names(self) -> tuple[str | None, str | None]:
        options = self._options
        return options.catalog or self._variable("CATALOG_TABLE"), options.tokens or self._variable("TOKENS_TABLE")

    @cached_property
    def sharing_endpoint(self) -> str:
        """The URL of the sharing server, for profile files; empty if it is unknown."""
        variable = self._variable("DELTAIC_ENDPOINT")
        aws = self._options.endpoint_url or self._variables.get("AWS_ENDPOINT_URL") or ""
        return variable or (reachable_endpoint(self.outputs.endpoint, aws) if self.outputs else "")

    @property
    def serves_iceberg(self) -> bool:
        """Return whether the server at `sharing_endpoint` serves Iceberg clients; false if unknown."""
        if self._variable("DELTAIC_ENDPOINT"):
            return bool(self._variables.get("ICEBERG_BUCKET"))
        return bool(self.outputs and self.outputs.iceberg_bucket)

    def answers_ipv6(self) -> bool:
        """Return whether the sharing endpoint supports IPv6; true if no stack is known."""
        return self.outputs is None or self.outputs.answers_ipv6

    @cached_property
    def jobs(self) -> JobsOutputs:
        """The stack's outputs for Spark jobs; raises NotFound if the stack runs no jobs."""
        if self.outputs is None or self.outputs.jobs is None:
            raise NotFound(
                f"stack '{self.stack}' does not exist or runs no Spark jobs: deploy it with SparkJobs=enabled, "
                "or select another with --stack"
            )
        return self.outputs.jobs

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that connect another program to the same AWS account and tables."""
        tables = {"CATALOG_TABLE": self.catalog_table, "TOKENS_TABLE": self.tokens_table}
        return {**self._variables, **self._options.variables, "AWS_REGION": self.region, **tables}

    @property
    def data_bucket(self) -> str:
        """The bucket for tables of the local server; empty for AWS, where tables can be in any bucket."""
        from deltaic_ops.local.resources import DATA_BUCKET

        return DATA_BUCKET if self._keys else ""

    @property
    def storage_options(self) -> dict[str, str]:
        """Settings of deltalake and obstore for S3, with the credentials of this connection."""
        keys, endpoint = self._credentials(), self._endpoint("s3") or ""
        values = {"ACCESS_KEY_ID": keys.access_key_id, "SECRET_ACCESS_KEY": keys.secret_access_key}
        values |= {"SESSION_TOKEN": keys.session_token, "REGION": self.region, "ENDPOINT_URL": endpoint}
        values["ALLOW_HTTP"] = "true" if endpoint.startswith("http:") else ""
        return {f"AWS_{name}": value for name, value in values.items() if value}

    def client(self, service: Any) -> Any:
        """Return a boto3 client for an AWS service."""
        endpoint_url = self._endpoint(str(service))
        if endpoint_url is not None:
            # Checked here, because botocore raises many kinds of errors for a bad endpoint, without a remedy.
            parse_endpoint(endpoint_url)
        from deltaic.storage.aws_client import CATALOG, botocore_config

        # The catalog answers quickly or not at all; starting a job or uploading a package can take longer.
        config = botocore_config(CATALOG) if service in {"dynamodb", "secretsmanager"} else None
        return self._session().client(service, endpoint_url=endpoint_url, config=config)

    def dynamo(self) -> Dynamo:
        """Return the catalog's DynamoDB client for this connection."""
        if self._keys is None:
            return Dynamo(lambda: self.client("dynamodb"))
        from deltaic.storage.aws_client import CATALOG, AwsClient

        keys, endpoint = self._keys, self._endpoint("dynamodb") or ""

        def connect() -> Any:
            return AwsClient("dynamodb", self.region, endpoint, timeouts=CATALOG, credentials=lambda: keys)

        return Dynamo(connect)

    def schemas(self, storage: Callable[[str], Storage]) -> "SchemaReader":
        """Return a reader of table schemas with this connection's credentials; `storage` returns storages by name."""
        from deltaic.storage.endpoints import StorageConfig
        from deltaic.storage.sessions import SigningSessions

        from deltaic_ops.inspection.shared_schema import SchemaReader

        endpoint = self._endpoint("s3") or ""
        home = StorageConfig(region=self.region, endpoint=endpoint, path_style=bool(endpoint))
        sessions = SigningSessions(region=self.region, endpoint=endpoint, client=self.client)
        return SchemaReader(home, self._credentials, sessions, storage, self.client)

    def admin(self, dynamo: Dynamo | None = None) -> CatalogAdmin:
        """Return the catalog's operations, over this connection or the given DynamoDB client."""
        buckets = Buckets(self._own_buckets, cache(self._bucket_behind))
        names, secrets = (self.catalog_table, self.tokens_table), lambda: self.client("secretsmanager")
        return CatalogAdmin(*names, dynamo or self.dynamo(), secrets, buckets, self.answers_ipv6)

    def _own_buckets(self) -> set[str]:
        stack = None if self._keys else self.outputs  # a local AWS has variables instead of a stack
        names = {self._variables.get("ICEBERG_BUCKET", "")}
        if stack is not None:
            names |= {stack.iceberg_bucket, stack.jobs.bucket if stack.jobs else ""}
        return names - {""}

    def _bucket_behind(self, point: "AccessPoint") -> str:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            client = self._session().client("s3control", point.region, endpoint_url=self._endpoint("s3-control"))
            return str(client.get_access_point(AccountId=point.account, Name=point.name)["Bucket"])
        except (BotoCoreError, ClientError):  # another account's access point, or no permission
            return ""

    def _credentials(self) -> "Credentials":
        from deltaic.storage.aws_credentials import Credentials

        if self._keys is not None:
            return self._keys
        credentials = self._session().get_credentials()
        if credentials is None:  # they existed when the connection was opened
            raise Unavailable("the AWS credentials no longer exist: set AWS_PROFILE or the AWS variables")
        try:
            keys = credentials.get_frozen_credentials()
        except Exception as error:
            raise to_operator_error(error) from error
        return Credentials(keys.access_key or "", keys.secret_key or "", keys.token or "")

    def _endpoint(self, service: str) -> str | None:
        """Return the endpoint URL of an AWS service; None for the default of AWS or of the AWS profile."""
        name, variables = f"AWS_ENDPOINT_URL_{service.upper().replace('-', '_')}", self._variables
        return self._options.endpoint_url or variables.get(name) or variables.get("AWS_ENDPOINT_URL") or None

    @cached_property
    def outputs(self) -> StackOutputs | None:
        """The outputs of the stack; None if they cannot be read (the DynamoDB tables may still be reachable).

        For a stack named on the command line, raises NotFound, or another DeltaicError for an error of AWS.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return stack_outputs(self.client("cloudformation"), self.stack)
        except (NotFound, BotoCoreError, ClientError) as error:
            if not self._options.stack_first:
                return None
            raise (error if isinstance(error, NotFound) else to_operator_error(error)) from error

    def _variable(self, name: str) -> str | None:
        """Return an environment variable that names a part of a stack; None if the command line names a stack."""
        return None if self._options.stack_first else self._variables.get(name)


def connection(options: GlobalOptions) -> Connection:
    """Connect to the selected AWS, or to the local server, and wait while it starts.

    Raises NotFound if no AWS is selected and no server is running, Unavailable if the state folder cannot be used,
    PermissionDenied, InvalidParameter.
    """
    process = dict(os.environ)
    environment = _local_variables(options, process)
    if not environment and (endpoint := options.endpoint_url or process.get("AWS_ENDPOINT_URL")):
        remedy = 'start it, for example with `deltaic serve`, and reload its variables: eval "$(deltaic env)"'
        check_reachable(endpoint, remedy)
    keys = _keys(options, environment or process)
    session = cache(partial(_session, options, environment, process))
    if keys is None:
        session()  # raises errors now, not when a client is needed
    return Connection(options, {**process, **environment}, session, keys)


def _local_variables(options: GlobalOptions, variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment variables of the local server or of LocalStack; empty if none is selected."""
    from deltaic_ops.local.private import StateUnusable
    from deltaic_ops.local.state_folder import wait_for_environment
    from deltaic_ops.localstack.instance import running_emulator

    if options.profile or options.endpoint_url or selects_aws(variables):
        return {}
    if (localstack := running_emulator(options.state)) is not None:
        return localstack.environment
    if options.stack is not None:
        return {}  # the built-in AWS emulator has no stacks
    try:
        return wait_for_environment(options.state) or {}
    except StateUnusable as error:
        raise Unavailable(str(error)) from error


def _keys(options: GlobalOptions, variables: Mapping[str, str]) -> "Credentials | None":
    """Return the credentials of a local AWS that environment variables describe completely; otherwise None.

    With them, the catalog is read without boto3, whose import takes most of a command's time. Profiles, proxies and
    certificate authorities do not concern a local AWS.
    """
    from deltaic.storage.aws_credentials import Credentials

    address = parse_endpoint(options.endpoint_url or variables.get("AWS_ENDPOINT_URL") or "https://aws")
    region = options.region or variables.get("AWS_REGION")
    key, secret = variables.get("AWS_ACCESS_KEY_ID"), variables.get("AWS_SECRET_ACCESS_KEY")
    if address.hostname not in THIS_MACHINE or options.profile or variables.get("AWS_PROFILE"):
        return None
    return Credentials(key, secret, variables.get("AWS_SESSION_TOKEN", "")) if key and secret and region else None


def _session(options: GlobalOptions, environment: Mapping[str, str], variables: Mapping[str, str]) -> "boto3.Session":
    import boto3

    try:
        session = boto3.Session(
            profile_name=options.profile,
            region_name=options.region or {**variables, **environment}.get("AWS_REGION"),
            aws_access_key_id=environment.get("AWS_ACCESS_KEY_ID"),
            aws_secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY"),
        )
        has_credentials = session.get_credentials() is not None
    except Exception as error:
        raise to_operator_error(error) from error
    if not has_credentials:
        raise NotFound(
            f"no AWS account is configured and no local server is running in {options.state.absolute()}: set "
            "AWS_PROFILE or the AWS variables, select a running server with --state, or start one: `deltaic serve`"
        )
    if session.region_name is None:
        raise NotFound("no AWS region is configured: set --region or AWS_REGION")
    return session
