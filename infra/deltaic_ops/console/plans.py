"""Plan the console's actions: describe the effects of each, and build the `deltaic` command for it."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from deltaic.catalog.admin.records import Excerpt
from deltaic.catalog.items import Grant, Recipient, Table, Token
from deltaic.errors import InvalidParameter, NotFound
from deltaic.partition_filters import parse
from deltaic.protocol.names import split_table_name

from deltaic_ops.console.provider import Provider
from deltaic_ops.inspection.filter_checks import missing_for_filters

_MAX_NAMES: Final = 10
_DURATION: Final = re.compile(r"0|[0-9]{1,6}[smhdw]")
_MAX_LIVE_TOKENS: Final = 2
_URLS_STAY: Final = "The change applies to new requests. URLs that recipients already have work until they expire."

Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    """An input field of an action's form."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """Effects of an action on chosen entries, and the command that carries it out."""

    title: str
    effects: list[str]
    arguments: list[str]
    """Arguments of the command after `deltaic` and its global options."""

    subject: tuple[str, str, str]
    """Console page of the changed entry: URL path, name of its query parameter, and the parameter's value."""

    is_destructive: bool = False
    shows_link: bool = False
    """Whether the command prints an invitation link, which the console shows once."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action that operators can plan and carry out, such as the revocation of a grant."""

    title: str
    parameters: tuple[str, ...]
    """Names of the query parameters that identify the changed entry."""

    plan: Callable[[Provider, Form], ActionPlan]
    fields: tuple[Field, ...] = ()


def _plan_invite(provider: Provider, form: Form) -> ActionPlan:
    recipient, live = _find_recipient(provider, form)
    link_life, token_life = _parse_duration(form, "expires"), _parse_duration(form, "token_expires")
    effects = [
        "Deltaic creates a link and shows it once.",
        f"The link works for {link_life}. Opening it creates a token of {recipient.name}, valid for {token_life}.",
        *_token_limit_note(live),
        *_cut_off_note(recipient),
    ]
    options = [*([f"--note={form['note']}"] if form.get("note") else []), _endpoint_option(provider)]
    arguments = ["recipient", "invite", f"--expires={link_life}", f"--token-expires={token_life}", *options]
    return _recipient_plan(f"Invite {recipient.name}", effects, arguments, recipient, shows_link=True)


def _plan_rotate(provider: Provider, form: Form) -> ActionPlan:
    recipient, live = _find_recipient(provider, form)
    overlap, token_life = _parse_duration(form, "overlap"), _parse_duration(form, "expires")
    old_tokens = "revoked at once" if overlap == "0" else f"valid for at most {overlap}"
    effects = [
        "Deltaic creates a link and shows it once.",
        f"The link works for 72h. Opening it creates a token of {recipient.name}, valid for {token_life}.",
        f"Its live tokens are then {old_tokens}: {_describe_tokens(live)}." if live else "It has no live token.",
        *([] if overlap == "0" else _token_limit_note(live)),
        *_cut_off_note(recipient),
    ]
    endpoint = _endpoint_option(provider)
    arguments = ["token", "rotate", "--link", f"--overlap={overlap}", f"--expires={token_life}", endpoint]
    return _recipient_plan(f"Rotate the tokens of {recipient.name}", effects, arguments, recipient, shows_link=True)


def _plan_revoke_token(provider: Provider, form: Form) -> ActionPlan:
    recipient, _ = _find_recipient(provider, form)
    token = provider.admin.tokens.get(recipient, form.get("id", ""))
    effects = [
        f"Token {token.id} ({token.state()}, created at {token.created_at:%Y-%m-%d %H:%M} UTC) is revoked.",
        "Requests with it can succeed for up to a minute, because the authorizer caches tokens.",
        "Signed URLs that the recipient already has work until they expire.",
    ]
    title, arguments = f"Revoke a token of {recipient.name}", ["token", "revoke"]
    return _recipient_plan(title, effects, arguments, recipient, token.id, is_destructive=True)


def _plan_cut_off(provider: Provider, form: Form) -> ActionPlan:
    recipient, live = _find_recipient(provider, form)
    effects = [
        f"All requests of {recipient.name} are rejected from now on.",
        f"Its live tokens are revoked: {_describe_tokens(live)}." if live else "It has no live token.",
        "URLs and credentials that it already has stop working within seconds.",
        "Its links and other credentials do not work while it is cut off. Its grants stay.",
    ]
    arguments = ["recipient", "cut-off", "--yes"]
    return _recipient_plan(f"Cut off {recipient.name}", effects, arguments, recipient, is_destructive=True)


def _plan_restore(provider: Provider, form: Form) -> ActionPlan:
    recipient, _ = _find_recipient(provider, form)
    effects = [
        f"Requests of {recipient.name} are allowed again, with its clients and policies, and through its links.",
        "Its tokens stay revoked. Send it a new link with Invite.",
    ]
    return _recipient_plan(f"Restore {recipient.name}", effects, ["recipient", "restore"], recipient)


def _plan_grant(provider: Provider, form: Form) -> ActionPlan:
    recipient, _ = _find_recipient(provider, form)
    share = provider.admin.shares.get(form.get("share", ""))
    with suppress(NotFound):
        existing = provider.admin.grants.get(recipient.name, share.name)
        raise InvalidParameter(f"'{recipient.name}' already has a grant of '{existing.share}': change that grant")
    row_filter, end = _parse_filter(form), _parse_end(form)
    tables = list(provider.admin.tables.list(share.name, excerpt=Excerpt(limit=_MAX_NAMES + 1)))
    effects = [
        f"{recipient.name} can read share {share.name}: {row_filter or 'all shared rows'}.",
        f"The grant ends at {end}." if end else "The grant does not expire.",
        f"Tables of the share: {_join_names([f'{table.schema_name}.{table.name}' for table in tables])}.",
        "The grant also covers tables that are added later.",
        *(["The command first checks the filter against each table of the share."] if row_filter else []),
        *_missing_note(recipient, row_filter),
        *_cut_off_note(recipient),
    ]
    arguments = ["grant", "create", *([f"--partition-filter={row_filter}"] if row_filter else [])]
    arguments += [f"--ends={end}"] if end else []
    return _recipient_plan(f"Grant {share.name} to {recipient.name}", effects, arguments, recipient, share.name)


def _plan_change_grant(provider: Provider, form: Form) -> ActionPlan:
    recipient, grant = _find_grant(provider, form)
    row_filter, end = _parse_filter(form), _parse_end(form)
    effects = [
        f"Rows now: {grant.partition_filter or 'all shared rows'}.",
        f"Rows after the change: {row_filter or 'all shared rows'}.",
        *([f"End after the change: {end}."] if end else []),
        *(["The command first checks the filter against each table of the share."] if row_filter else []),
        *_missing_note(recipient, row_filter),
        _URLS_STAY,
    ]
    arguments = ["grant", "update", _filter_option(row_filter), *([f"--ends={end}"] if end else [])]
    title = f"Change the grant of {grant.share} to {recipient.name}"
    return _recipient_plan(title, effects, arguments, recipient, grant.share)


def _plan_revoke_grant(provider: Provider, form: Form) -> ActionPlan:
    recipient, grant = _find_grant(provider, form)
    effects = [
        f"{recipient.name} can no longer read share {grant.share}.",
        "URLs that it already has work until they expire. To stop these too, cut off the recipient.",
    ]
    title, arguments = f"Revoke {grant.share} from {recipient.name}", ["grant", "revoke"]
    return _recipient_plan(title, effects, arguments, recipient, grant.share, is_destructive=True)


def _plan_filter(provider: Provider, form: Form) -> ActionPlan:
    table = provider.admin.tables.get(*split_table_name(form.get("table", "")))
    row_filter, name = _parse_filter(form), table.title
    grants = provider.admin.grants.of_share(table.share, Excerpt(limit=_MAX_NAMES + 1))
    effects = [
        f"Rows now: {_current_filter(table)}.",
        f"Rows after the change: {row_filter or 'all'}.",
        f"Recipients of share {table.share}: {_join_names([grant.recipient for grant in grants])}.",
        *(["The command first checks the filter against the table."] if row_filter else []),
        _URLS_STAY,
    ]
    arguments = ["table", "update", _filter_option(row_filter), "--", name]
    return ActionPlan(f"Filter the rows of {name}", effects, arguments, ("/table", "table", name))


def _find_recipient(provider: Provider, form: Form) -> tuple[Recipient, list[Token]]:
    recipient = provider.admin.recipients.get(form.get("recipient", ""))
    now = datetime.now(UTC)
    return recipient, [token for token in provider.admin.tokens.list(recipient.id) if token.state(now) == "live"]


def _find_grant(provider: Provider, form: Form) -> tuple[Recipient, Grant]:
    recipient = provider.admin.recipients.get(form.get("recipient", ""))
    return recipient, provider.admin.grants.get(recipient.name, form.get("share", ""))


def _endpoint_option(provider: Provider) -> str:
    if not provider.endpoint:
        raise InvalidParameter("the endpoint of the server is unknown: start the console with --endpoint")
    return f"--endpoint={provider.endpoint}"


def _recipient_plan(
    title: str, effects: list[str], options: list[str], recipient: Recipient, *names: str, **flags: bool
) -> ActionPlan:
    arguments = [*options, "--", recipient.name, *names]
    return ActionPlan(title, effects, arguments, ("/recipient", "recipient", recipient.name), **flags)


def _current_filter(table: Table) -> str:
    if table.view_properties is not None:
        raise InvalidParameter(f"'{table.title}' is a view: change its SQL to select the rows of each recipient")
    return table.partition_filter or "all"


def _parse_duration(form: Form, name: str) -> str:
    text = form.get(name, "").strip().lower()
    if not _DURATION.fullmatch(text):
        raise InvalidParameter(f"'{text}' is not a duration: use a number with a unit, such as 90d, 12h or 30m")
    return text


def _parse_filter(form: Form) -> str:
    text = form.get("filter", "").strip()
    if text:
        parse(text)  # raises InvalidParameter, also for @FILE, which only the command line reads
    return text


def _filter_option(row_filter: str) -> str:
    return f"--partition-filter={row_filter}" if row_filter else "--no-partition-filter"


def _parse_end(form: Form) -> str:
    text = form.get("ends", "").strip()
    if text and text != "never":
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise InvalidParameter(f"'{text}' is not a date: use 2027-02-01, 2027-02-01T12:00Z or never") from None
    return text


def _describe_tokens(live: list[Token]) -> str:
    return ", ".join(f"{token.id} (expires {token.expires_at:%Y-%m-%d %H:%M} UTC)" for token in live)


def _token_limit_note(live: list[Token]) -> list[str]:
    note = f"The link creates no token while {_MAX_LIVE_TOKENS} tokens are live: {_describe_tokens(live)}."
    return [] if len(live) < _MAX_LIVE_TOKENS else [note]


def _cut_off_note(recipient: Recipient) -> list[str]:
    note = f"{recipient.name} is cut off: all its requests are rejected until you restore it."
    return [] if recipient.cut_off_at is None else [note]


def _missing_note(recipient: Recipient, row_filter: str) -> list[str]:
    missing = missing_for_filters(recipient.properties, [parse(row_filter)] if row_filter else [])
    return [f"{recipient.name} sees no rows: missing property {', '.join(missing)}."] if missing else []


def _join_names(names: list[str]) -> str:
    text = ", ".join(names[:_MAX_NAMES]) or "none"
    return f"{text} and more" if len(names) > _MAX_NAMES else text


_ROW_FILTER: Final = Field("filter", "Rows", hint="filter on partition columns, such as region = 'EU'; empty for all")
_CHANGED_END: Final = Field("ends", "Ends", hint="2027-02-01, 2027-02-01T12:00Z or never; empty for no change")
_NEW_END: Final = Field("ends", "Ends", hint="2027-02-01, 2027-02-01T12:00Z; empty for never")
_SHARE: Final = Field("share", "Share", is_required=True)
_INVITATION: Final = (
    Field("expires", "Link lifetime", "72h", "72h, 7d", is_required=True),
    Field("token_expires", "Token lifetime", "90d", "90d, 12h", is_required=True),
    Field("note", "Note", hint="visible to operators only"),
)
_ROTATION: Final = (
    Field("overlap", "Old tokens work for", "1d", "24h; 0 to revoke them", is_required=True),
    Field("expires", "Token lifetime", "90d", "90d, 12h, 30m", is_required=True),
)

ACTIONS: Final[Mapping[str, Action]] = {
    "invite": Action("Invite", ("recipient",), _plan_invite, _INVITATION),
    "rotate": Action("Rotate the tokens", ("recipient",), _plan_rotate, _ROTATION),
    "revoke-token": Action("Revoke", ("recipient", "id"), _plan_revoke_token),
    "cut-off": Action("Cut off", ("recipient",), _plan_cut_off),
    "restore": Action("Restore", ("recipient",), _plan_restore),
    "grant": Action("Grant a share", ("recipient",), _plan_grant, (_SHARE, _ROW_FILTER, _NEW_END)),
    "change-grant": Action("Change", ("recipient", "share"), _plan_change_grant, (_ROW_FILTER, _CHANGED_END)),
    "revoke-grant": Action("Revoke", ("recipient", "share"), _plan_revoke_grant),
    "filter": Action("Filter rows", ("table",), _plan_filter, (_ROW_FILTER,)),
}
"""Actions by the value of the query parameter `action`."""
