"""Commands for OAuth sign-in of a recipient's programs: OAuth clients, and policies for JWTs of other issuers."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from deltaic.catalog.credentials.federation_admin import Claim
from deltaic.catalog.credentials.oauth_clients import IssuedClient
from deltaic.catalog.items import Policy
from deltaic.errors import InvalidParameter, Unavailable

from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.recipients.secret_output import Endpoint, hand_over, place_of
from deltaic_ops.cli.value_parsers import OptionalRecipient, RecipientName
from deltaic_ops.rights.profile_file import client_profile, private_key_profile

if TYPE_CHECKING:
    from deltaic.identity.key_download import IssuerMetadata

ProfileFile = Annotated[Path | None, typer.Option("--profile-file", metavar="FILE", help="Write a profile file.")]
PolicyId = Annotated[str, typer.Argument(metavar="POLICY_ID", help="Id of the policy.")]
ClientId = Annotated[str, typer.Argument(metavar="CLIENT_ID", help="Id of the client.")]
_CLAIM = "Claim that identifies the recipient. The claim groups must contain --subject; others must be equal to it."
_PRIVATE_KEY = "Path of the private key on the recipient's machine, for the profile, instead of a client secret."
SECRET_TO_FILL_IN = "<client secret>"  # noqa: S105 -- a placeholder


class _Client(NamedTuple):
    id: str
    scope: str
    private_key: Mapping[str, str] | None
    """Key file, key id and algorithm for the profile; None if the client has a secret."""


def federate(  # noqa: PLR0913, PLR0917 -- what a policy and its profile need
    cli: Operator,
    name: RecipientName,
    issuer: Annotated[str, typer.Option(metavar="URL", help="Issuer of the JWTs: exact value of the claim iss.")],
    audience: Annotated[str, typer.Option(metavar="TEXT", help="Required value of the claim aud.")],
    subject: Annotated[str, typer.Option(metavar="TEXT", help="Required value of the claim --subject-claim.")],
    subject_claim: Annotated[Claim, typer.Option(help=_CLAIM)] = "sub",
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Note for operators.")] = "",
    profile_file: ProfileFile = None,
    client_id: Annotated[str, typer.Option(metavar="ID", help="Client id at the issuer, for the profile.")] = "",
    private_key_file: Annotated[str, typer.Option(metavar="PATH", help=_PRIVATE_KEY)] = "",
    key_id: Annotated[str, typer.Option(metavar="ID", help="Id of this key at the issuer.")] = "",
    algorithm: Annotated[str, typer.Option(metavar="NAME", help="Signature algorithm of this key.")] = "RS256",
    scope: Annotated[str, typer.Option(metavar="TEXT", help="Scope to request from the issuer, for the profile.")] = "",
    endpoint: Endpoint = None,
) -> None:
    r"""Accept JWTs of another issuer (OIDC) for a recipient.

    You share no secret with the recipient. A JWT that matches policies of two recipients is rejected.

    \b
    deltaic recipient federate alice --issuer https://login.example.org --audience sharing \
        --subject 7f3c
    deltaic recipient federate acme --issuer https://login.example.org --audience sharing \
        --subject-claim azp --subject reports --profile-file acme.share --client-id reports
    """
    published, warnings = _published(cli, issuer, needed=profile_file is not None)
    if profile_file is not None and not client_id:
        raise InvalidParameter("--profile-file requires --client-id, the recipient's client id at the issuer")
    with place_of(profile_file) as file:
        server = "" if file is None else cli.sharing_endpoint(endpoint)
        policy = cli.admin.federation.create(
            cli.admin.recipients.get(name),
            issuer,
            audience=audience,
            claim=subject_claim,
            subject=subject,
            comment=comment,
        )
        if file is not None and published is not None:
            key = {"privateKeyFile": private_key_file, "keyId": key_id, "algorithm": algorithm}
            client = _Client(client_id, scope, key if private_key_file else None)
            text = _profile(server, policy, published.token_endpoint, client)
            undo = f"`deltaic recipient unfederate {policy.recipient} {policy.id}`"
            file.write(text, f", but policy {policy.id} was created: remove it with {undo}")
    _show_policy(cli, policy, profile_file, warnings, needs_secret=not private_key_file)


def policies(cli: Operator, name: OptionalRecipient = None) -> None:
    r"""List federation policies.

    \b
    deltaic recipient policies alice
    """
    columns = [
        *fields(RECIPIENT="recipient", ID="id", ISSUER="issuer", AUDIENCE="audience"),
        *fields(CLAIM="subject_claim", SUBJECT="subject", CREATED="created_at", COMMENT="comment"),
    ]
    policies = cli.of_recipient(cli.admin.federation, name)
    cli.rows(policies, columns, "no policies; next: deltaic recipient federate <recipient>")


def unfederate(cli: Operator, name: RecipientName, policy_id: PolicyId) -> None:
    r"""Remove a federation policy. Servers may accept its JWTs for up to one more minute.

    \b
    deltaic recipient unfederate alice 937d8a9fd33e
    """
    removed = cli.admin.federation.remove(cli.admin.recipients.get(name), policy_id)
    cli.show(removed, f"removed policy {removed.id} of '{removed.recipient}'")


def _published(cli: Operator, issuer: str, *, needed: bool) -> "tuple[IssuerMetadata | None, list[str]]":
    """Return the issuer's metadata and warnings; raises a download error only if a profile needs the metadata."""
    from deltaic.identity.key_download import Unreachable, check_issuer, download_metadata

    loopback = bool(cli.connection.environment.get("AWS_ENDPOINT_URL"))
    check_issuer(issuer, loopback=loopback)
    try:
        published = download_metadata(issuer, loopback=loopback)
    except Unreachable as failure:
        message = f"issuer '{issuer}' does not publish its keys: {failure}"
        if needed:
            raise Unavailable(f"{message}; a profile file needs its token endpoint: omit --profile-file") from None
        return None, [f"{message}; until it does, its JWTs are refused"]
    if needed and not published.token_endpoint:
        raise InvalidParameter(f"issuer '{issuer}' does not publish a token endpoint: omit --profile-file")
    return published, []


def _profile(server: str, policy: Policy, token_endpoint: str, client: _Client) -> str:
    if client.private_key is None:
        return client_profile(server, token_endpoint, client.id, SECRET_TO_FILL_IN, client.scope)
    auth = {
        "tokenEndpoint": token_endpoint,
        "clientId": client.id,
        "issuer": policy.issuer,
        "audience": policy.audience,
        "privateKey": client.private_key,
    }
    return private_key_profile(server, {**auth, "scope": client.scope} if client.scope else auth)


def _show_policy(cli: Operator, policy: Policy, path: Path | None, warnings: list[str], *, needs_secret: bool) -> None:
    done = f"created policy {policy.id} for '{policy.recipient}': accepts JWTs of {policy.issuer} with "
    done += f"{policy.subject_claim} {policy.subject}" + f"; wrote {path}" * (path is not None)
    done += f": the recipient replaces {SECRET_TO_FILL_IN} by its secret" * (path is not None and needs_secret)
    cli.show(policy, done, warnings, profile=str(path or ""))


def client(  # noqa: PLR0913, PLR0917 -- what a client and its profile need
    cli: Operator,
    name: RecipientName,
    profile_file: ProfileFile = None,
    scope: Annotated[str, typer.Option(metavar="TEXT", help="Scope in the profile. It grants no access.")] = "",
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Note for operators.")] = "",
    endpoint: Endpoint = None,
) -> None:
    r"""Create an OAuth client for a recipient. Programs use it to request short-lived tokens.

    With --profile-file, the secret is written to a profile file; without it, it is printed once. A stack on AWS
    needs the parameter ClientCredentials=enabled.

    \b
    deltaic recipient client alice --profile-file alice.share
    deltaic recipient client alice --comment "nightly report"
    """
    with place_of(profile_file) as file:
        server = "" if file is None else cli.sharing_endpoint(endpoint)
        issued = cli.admin.clients.create(cli.admin.recipients.get(name), comment=comment)
        if file is not None:
            created = issued.client
            credentials = (f"{server}/oauth/token", created.id, issued.secret, scope)
            text = client_profile(server, *credentials, serves_iceberg=cli.connection.serves_iceberg)
            file.write(text, _unusable(issued))
    secret, done = {"clientSecret": issued.secret}, f"created client {issued.client.id} for '{issued.client.recipient}'"
    hand_over(cli, issued.client, secret, done, _unusable(issued), path=profile_file)


def clients(cli: Operator, name: OptionalRecipient = None) -> None:
    r"""List OAuth clients.

    \b
    deltaic recipient clients alice
    """
    columns = fields(RECIPIENT="recipient", ID="id", CREATED="created_at", COMMENT="comment")
    clients = cli.of_recipient(cli.admin.clients, name)
    cli.rows(clients, columns, "no clients; next: deltaic recipient client <recipient>")


def revoke_client(cli: Operator, name: RecipientName, client_id: ClientId) -> None:
    r"""Revoke an OAuth client and its tokens. Servers may accept them for up to one more minute.

    \b
    deltaic recipient revoke-client alice dlc_0123456789abcdef01234567
    """
    removed = cli.admin.clients.revoke(cli.admin.recipients.get(name), client_id)
    cli.show(removed, f"revoked client {removed.id} of '{removed.recipient}'")


def _unusable(issued: IssuedClient) -> str:
    created = issued.client
    undo = f"`deltaic recipient revoke-client {created.recipient} {created.id}`"
    return f", but client {created.id} was created: revoke it with {undo}"
