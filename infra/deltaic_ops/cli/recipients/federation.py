"""How programs of a recipient sign in by OAuth: clients of its own, and policies for JWTs of another issuer."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from deltaic.catalog.credentials.federation import Claim
from deltaic.catalog.credentials.oauth_clients import IssuedClient
from deltaic.catalog.items import Policy
from deltaic.errors import InvalidParameter, Unavailable

from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import Operator, wire
from deltaic_ops.cli.recipients.handing_over import Endpoint, hand_over, place_of
from deltaic_ops.cli.words import RecipientName
from deltaic_ops.rights.profile_file import client_profile, private_key_profile

if TYPE_CHECKING:
    from deltaic.identity.fetching import Published

ProfileFile = Annotated[
    Path | None, typer.Option("--profile-file", metavar="FILE", help="Write the recipient's profile here (version 2).")
]
SECRET_TO_FILL_IN = "<client secret>"  # noqa: S105 -- the place of one


class _Client(NamedTuple):
    id: str
    scope: str
    private_key: Mapping[str, str] | None
    """None: it has a secret."""


def federate(  # noqa: PLR0913, PLR0917 -- what a policy and its profile need
    out: Operator,
    name: RecipientName,
    issuer: Annotated[str, typer.Option(metavar="URL", help="The claim iss, to the letter.")],
    audience: Annotated[str, typer.Option(help="What the claim aud is, or has in its list.")],
    subject: Annotated[str, typer.Option(help="What the claim is that --subject-claim names.")],
    subject_claim: Annotated[
        Claim, typer.Option(help="Which claim says who it is; of groups one must be the subject.")
    ] = "sub",
    comment: Annotated[str, typer.Option(help="A note for yourself.")] = "",
    profile_file: ProfileFile = None,
    client_id: Annotated[str, typer.Option(help="Of the recipient's client at the issuer, for the profile.")] = "",
    private_key_file: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Where the recipient keeps the key by which it asks for tokens, instead of a client secret.",
        ),
    ] = "",
    key_id: Annotated[str, typer.Option(help="Of that key, at the issuer.")] = "",
    algorithm: Annotated[str, typer.Option(help="Of that key.")] = "RS256",
    scope: Annotated[str, typer.Option(help="What to ask the issuer for, for the profile.")] = "",
    endpoint: Endpoint = None,
) -> None:
    r"""Take the JWTs of an issuer for this recipient's: no secret of yours is handed over, and none lives for months.

    Who it is tells one claim of the token. Whoever matches policies of two recipients is refused.

    \b
    deltaic recipient federate alice --issuer https://login.example.org --audience deltaic --subject 7f3c
    deltaic recipient federate acme --issuer https://login.example.org --audience deltaic --subject-claim azp \
        --subject reports --profile-file acme.share --client-id reports
    """
    published, warnings = _look(out, issuer, needed=profile_file is not None)
    if profile_file is not None and not client_id:
        raise InvalidParameter("a profile needs --client-id: the recipient's client at the issuer")
    with place_of(profile_file) as place:
        server = "" if place is None else out.sharing_endpoint(endpoint)
        policy = out.admin.federation.create(
            out.admin.recipients.get(name),
            issuer,
            audience=audience,
            claim=subject_claim,
            subject=subject,
            comment=comment,
        )
        if place is not None and published is not None:
            key = {"privateKeyFile": private_key_file, "keyId": key_id, "algorithm": algorithm}
            client = _Client(client_id, scope, key if private_key_file else None)
            text = _profile(server, policy, published.token_endpoint, client)
            undo = f"`deltaic recipient unfederate {policy.recipient} {policy.id}`"
            place.write(text, f", but policy {policy.id} was made: {undo} ends it")
    _told(out, policy, profile_file, warnings, secret_left=not private_key_file)


def policies(out: Operator, name: Annotated[str | None, typer.Argument(metavar="[RECIPIENT]")] = None) -> None:
    r"""List whose JWTs are a recipient's, or are anybody's.

    \b
    deltaic recipient policies alice
    """
    columns = fields(
        RECIPIENT="recipient",
        ID="id",
        ISSUER="issuer",
        AUDIENCE="audience",
        CLAIM="subject_claim",
        SUBJECT="subject",
        MADE="created_at",
        COMMENT="comment",
    )
    some = out.admin.federation
    listed = some.of_all() if name is None else some.list(out.admin.recipients.get(name).id)
    out.rows(listed, columns, "there is no policy: deltaic recipient federate <recipient>")


def unfederate(
    out: Operator, name: RecipientName, policy_id: Annotated[str, typer.Argument(metavar="POLICY_ID")]
) -> None:
    r"""Remove a policy: its JWTs let nobody in any more (servers may remember one for a minute).

    \b
    deltaic recipient unfederate alice 937d8a9fd33e
    """
    gone = out.admin.federation.remove(out.admin.recipients.get(name), policy_id)
    out.show(gone, f"removed policy {gone.id} of '{gone.recipient}'")


def _look(out: Operator, issuer: str, *, needed: bool) -> "tuple[Published | None, list[str]]":
    """Ask the issuer what it publishes; what is wrong is a warning, but where a profile needs the answer."""
    from deltaic.identity.fetching import Unreachable, check_issuer, fetch

    loopback = bool(out.connection.environment.get("AWS_ENDPOINT_URL"))
    check_issuer(issuer, loopback=loopback)
    try:
        published = fetch(issuer, loopback=loopback)
    except Unreachable as failure:
        said = f"'{issuer}' does not publish its keys now: {failure}"
        if needed:
            raise Unavailable(f"{said}; the profile needs its token endpoint, so do without --profile-file") from None
        return None, [f"{said}; until it does, nobody comes in by it"]
    if needed and not published.token_endpoint:
        raise InvalidParameter(f"'{issuer}' names no token endpoint: do without --profile-file")
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


def _told(out: Operator, policy: Policy, path: Path | None, warnings: list[str], *, secret_left: bool) -> None:
    if out.as_json:
        told = {} if path is None else {"profile": str(path)}
        out.json({**wire(policy), **told, **({"warnings": warnings} if warnings else {})})
        return
    out.show(policy, f"federated '{policy.recipient}'", warnings)
    if path is not None:
        out.note(f"wrote {path}" + (f": the recipient puts its secret for {SECRET_TO_FILL_IN}" if secret_left else ""))


def client(  # noqa: PLR0913, PLR0917 -- what a client and its profile need
    out: Operator,
    name: RecipientName,
    profile_file: ProfileFile = None,
    scope: Annotated[str, typer.Option(help="What the profile asks for; it is echoed and opens nothing.")] = "",
    comment: Annotated[str, typer.Option(help="A note for yourself.")] = "",
    endpoint: Endpoint = None,
) -> None:
    r"""Make a client of the recipient's: its tokens live for minutes, and it gets new ones by itself.

    Into the profile file; without --profile-file its secret is shown, this once. A stack on AWS gives tokens if its
    parameter ClientCredentials is enabled.

    \b
    deltaic recipient client alice --profile-file alice.share
    deltaic recipient client alice --comment "nightly report"
    """
    with place_of(profile_file) as place:
        server = "" if place is None else out.sharing_endpoint(endpoint)
        issued = out.admin.clients.create(out.admin.recipients.get(name), comment=comment)
        if place is not None:
            made = issued.client
            told = (f"{server}/oauth/token", made.id, issued.secret, scope)
            text = client_profile(server, *told, serves_iceberg=out.connection.serves_iceberg)
            place.write(text, _unusable(issued))
    secret, done = {"clientSecret": issued.secret}, f"made a client of '{issued.client.recipient}'"
    hand_over(out, issued.client, secret, done, _unusable(issued), path=profile_file)


def clients(out: Operator, name: Annotated[str | None, typer.Argument(metavar="[RECIPIENT]")] = None) -> None:
    r"""List the clients of a recipient, or of all.

    \b
    deltaic recipient clients alice
    """
    columns = fields(RECIPIENT="recipient", ID="id", MADE="created_at", COMMENT="comment")
    some = out.admin.clients
    listed = some.of_all() if name is None else some.list(out.admin.recipients.get(name).id)
    out.rows(listed, columns, "there is no client: deltaic recipient client <recipient>")


def revoke_client(
    out: Operator, name: RecipientName, client_id: Annotated[str, typer.Argument(metavar="CLIENT_ID")]
) -> None:
    r"""End a client and the tokens that it was given (servers may remember one for a minute).

    \b
    deltaic recipient revoke-client alice dlc_0123456789abcdef01234567
    """
    gone = out.admin.clients.revoke(out.admin.recipients.get(name), client_id)
    out.show(gone, f"revoked client {gone.id} of '{gone.recipient}'")


def _unusable(issued: IssuedClient) -> str:
    made = issued.client
    return f", but client {made.id} was made: end it with `deltaic recipient revoke-client {made.recipient} {made.id}`"
