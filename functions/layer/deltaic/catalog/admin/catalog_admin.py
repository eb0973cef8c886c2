"""Administration of the whole catalog: one admin object for each type of entry."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from deltaic.catalog import keys
from deltaic.catalog.admin.folder_admin import FolderAdmin
from deltaic.catalog.admin.follow_admin import FollowAdmin
from deltaic.catalog.admin.grant_admin import GrantAdmin
from deltaic.catalog.admin.model_admin import ModelAdmin
from deltaic.catalog.admin.recipient_admin import RecipientAdmin
from deltaic.catalog.admin.records import Records
from deltaic.catalog.admin.schema_admin import SchemaAdmin
from deltaic.catalog.admin.share_admin import ShareAdmin
from deltaic.catalog.admin.storage_admin import StorageAdmin, connect_secrets
from deltaic.catalog.admin.table_admin import TableAdmin
from deltaic.catalog.admin.view_admin import ViewAdmin
from deltaic.catalog.admin.view_partitions import ViewPartitions
from deltaic.catalog.admin.view_requests import ViewRequests
from deltaic.catalog.asset_items import Folder, Model, Skill, Volume
from deltaic.catalog.buckets import Buckets
from deltaic.catalog.credentials.federation_admin import Federation
from deltaic.catalog.credentials.invitations import Invitations
from deltaic.catalog.credentials.oauth_clients import OAuthClients
from deltaic.catalog.credentials.token_admin import TokenAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Recipient
from deltaic.errors import NotFound

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient


class CatalogAdmin:
    """Create, get, list, update and delete the entries of the catalog: `admin.shares.create("sales")`.

    Each change is a transaction with conditions, which keep names unique and let only empty entries be deleted, even
    if several administrators work at the same time. Names are case-insensitive, and stored as they were first written.
    `secrets` returns the Secrets Manager client for the access keys of storages; it is called at first use.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- the connections to AWS
        self,
        catalog_table: str,
        tokens_table: str,
        dynamo: Dynamo | None = None,
        secrets: "Callable[[], SecretsManagerClient]" = connect_secrets,
        buckets: Buckets | None = None,
        answers_ipv6: "Callable[[], bool]" = lambda: True,
    ) -> None:
        dynamo = dynamo or Dynamo()
        self.buckets = buckets or Buckets()
        self._records = records = Records(catalog_table, dynamo, self.buckets)
        self.storages = StorageAdmin(records, secrets)
        partitions, requests = ViewPartitions(records), ViewRequests(records)
        self.tables = TableAdmin(records, partitions)
        self.views = ViewAdmin(records, self.tables, partitions)
        self.volumes = FolderAdmin(records, Volume)
        self.skills = FolderAdmin(records, Skill)
        self.models = ModelAdmin(records)
        self.follows = FollowAdmin(records)
        self.schemas = SchemaAdmin(records, [self.follows, self.tables, self.volumes, self.skills, self.models])
        self.grants = GrantAdmin(records, requests)
        self.shares = ShareAdmin(records, self.schemas, self.grants)
        self.tokens = TokenAdmin(catalog_table, tokens_table, dynamo)
        self.invitations = Invitations(tokens_table, dynamo, self.tokens)
        self.federation = Federation(tokens_table, dynamo, self.tokens)
        self.clients = OAuthClients(tokens_table, dynamo, self.tokens)
        sign_in_methods = (self.invitations, self.federation, self.clients, self.tokens)
        self.recipients = RecipientAdmin(records, self.grants, sign_in_methods, requests, answers_ipv6)

    def folders(self, share: str) -> Iterator[Folder]:
        """Yield the volumes, skills and model versions of a share; raises NotFound."""
        yield from self.volumes.list(share)
        yield from self.skills.list(share)
        for model in self.models.list(share):
            yield from self.models.versions(model.share, model.schema_name, model.name)

    def unfinished_deletions(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield type and name, such as "schema" and ("sales", "europe"), of entries whose deletion did not finish."""
        for share in self._records.all(keys.all_of("share")):
            name = share["name"]
            if "state" in share:
                yield "share", (name,)
                continue
            for schema in self._records.all(keys.of_share("schema", name)):
                if "state" in schema:
                    yield "schema", (name, schema["name"])
            ranges = {"view": keys.of_share("view", name), "model": keys.in_share(Model.kind, name)}
            for kind, key_range in ranges.items():
                for item in self._records.all(key_range):
                    if "state" in item:
                        yield kind, (name, item["schema_name"], item["name"])
        for recipient in self._records.all(keys.all_of("recipient")):
            if "state" in recipient:
                yield "recipient", (recipient["name"],)

    def finish_deletions(self) -> None:
        """Finish all deletions that have begun but not finished."""
        for kind, path in list(self.unfinished_deletions()):
            with suppress(NotFound):  # deleted with its parent, or by another process
                match kind:
                    case "share":
                        self.shares.delete(*path, force=True, resume=True)
                    case "schema":
                        self.schemas.delete(*path, force=True, resume=True)
                    case "model":
                        self.models.delete(*path, force=True, resume=True)
                    case "view":
                        self._records.get_any(keys.asset("view", *path), "", resume=True)
                        self.tables.delete(*path)
                    case _:
                        self.recipients.delete(*path, resume=True)

    def cut_off(self, name: str) -> Recipient:
        """Reject all further requests of a recipient and revoke its tokens; raises NotFound.

        First marks the recipient as cut off, which is enough to reject its requests. If the call is interrupted,
        repeat it. URLs and credentials that the recipient has already received stay valid until they expire.
        """
        marked = self.recipients.mark_cut_off(name)
        self.tokens.revoke_all(marked)
        return marked
