"""Commands for OAuth sign-in of a recipient's programs: OAuth clients, and policies for JWTs of other issuers."""

from pathlib import Path
from typing import Annotated

import typer
from deltaic.catalog.credentials.federation_admin import Claim
from deltaic.catalog.credentials.oauth_clients import IssuedClient

from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.recipients.secret_output import Endpoint, hand_over, place_of
from deltaic_ops.cli.value_parsers import OptionalRecipient, RecipientName
from deltaic_ops.rights.profile_file import client_profile

ProfileFile = Annotated[Path | None, typer.Option("--profile-file", metavar="FILE", help="Write a profile file.")]
PolicyId = Annotated[str, typer.Argument(metavar="POLICY_ID", help="Id of the policy.")]
ClientId = Annotated[str, typer.Argument(metavar="CLIENT_ID", help="Id of the client.")]
_CLAIM = "Claim that identifies the recipient. The claim groups must contain --subject; others must be equal to it."


def federate(  # noqa: PLR0913, PLR0917 -- what a policy holds
    cli: Operator,
    name: RecipientName,
    issuer: Annotated[str, typer.Option(metavar="URL", help="Issuer of the JWTs: exact value of the claim iss.")],
    audience: Annotated[str, typer.Option(metavar="TEXT", help="Required value of the claim aud.")],
    subject: Annotated[str, typer.Option(metavar="TEXT", help="Required value of the claim --subject-claim.")],
    subject_claim: Annotated[Claim, typer.Option(help=_CLAIM)] = "sub",
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Note for operators.")] = "",
) -> None:
    r"""Accept JWTs of another issuer (OIDC) for a recipient.

    You share no secret with the recipient. A JWT that matches policies of two recipients is rejected.

    \b
    deltaic recipient federate alice --issuer https://login.example.org --audience sharing \
        --subject 7f3c
    deltaic recipient federate acme --issuer https://login.example.org --audience sharing \
        --subject-claim azp --subject reports
    """
    warnings = _unreachable(cli, issuer)
    policy = cli.admin.federation.create(
        cli.admin.recipients.get(name),
        issuer,
        audience=audience,
        claim=subject_claim,
        subject=subject,
        comment=comment,
    )
    done = f"created policy {policy.id} for '{policy.recipient}': accepts JWTs of {policy.issuer} with "
    cli.show(policy, f"{done}{policy.subject_claim} {policy.subject}", warnings)


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


def _unreachable(cli: Operator, issuer: str) -> list[str]:
    """Return a warning if the issuer does not publish its keys; raises InvalidParameter for an invalid URL."""
    from deltaic.identity.key_download import Unreachable, check_issuer, download_keys

    loopback = bool(cli.connection.environment.get("AWS_ENDPOINT_URL"))
    check_issuer(issuer, loopback=loopback)
    try:
        download_keys(issuer, loopback=loopback)
    except Unreachable as failure:
        return [f"issuer '{issuer}' does not publish its keys: {failure}; until it does, its JWTs are refused"]
    return []


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
