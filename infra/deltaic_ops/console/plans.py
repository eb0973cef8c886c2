"""What can be done, as a plan before it: what will happen in words, and the command that does it."""

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

_SHOWN: Final = 10
"""Tables or recipients that a plan names."""

_DURATION: Final = re.compile(r"0|[0-9]{1,6}[smhdw]")

Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    """What is asked for before an action is planned."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    is_needed: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What an action will do."""

    title: str
    words: list[str]
    line: list[str]
    """The command's words, behind `deltaic` and its global options."""

    back: tuple[str, str, str]
    """Whose page it is about: its path, the name of its parameter, and the name."""

    takes_away: bool = False
    shows_a_link: bool = False
    """Which nobody is shown again."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be done."""

    title: str
    about: tuple[str, ...]
    """The parameters that name whom or what it concerns."""

    plan: Callable[[Provider, Form], Plan]
    fields: tuple[Field, ...] = ()


def _invite(provider: Provider, form: Form) -> Plan:
    person, live = _person(provider, form)
    life, token_life = _duration(form, "expires"), _duration(form, "token_expires")
    words = [
        "A link is made, and shown this once.",
        f"Whoever opens it first, within {life}, makes a token of {person.name}'s that lives for {token_life}.",
        *_room(live),
        *_cut_off(person),
    ]
    note = [f"--note={form['note']}"] if form.get("note") else []
    line = ["recipient", "invite", f"--expires={life}", f"--token-expires={token_life}", *note]
    line += [_endpoint(provider), "--", person.name]
    return Plan(f"Invite {person.name}", words, line, _of(person), shows_a_link=True)


def _rotate(provider: Provider, form: Form) -> Plan:
    person, live = _person(provider, form)
    overlap, life = _duration(form, "overlap"), _duration(form, "expires")
    ends = "are revoked at once" if overlap == "0" else f"end {overlap} after it, if they do not end sooner"
    words = [
        "A link is made, and shown this once.",
        f"Whoever opens it first, within 72h, makes a token of {person.name}'s that lives for {life}.",
        f"When it is opened, its live tokens {ends}: {_tokens(live)}." if live else "It has no live token that ends.",
        *([] if overlap == "0" else _room(live)),
        *_cut_off(person),
    ]
    line = ["token", "rotate", "--link", f"--overlap={overlap}", f"--expires={life}"]
    line += [_endpoint(provider), "--", person.name]
    return Plan(f"Rotate the tokens of {person.name}", words, line, _of(person), shows_a_link=True)


def _revoke_token(provider: Provider, form: Form) -> Plan:
    person, _ = _person(provider, form)
    token = provider.admin.tokens.get(person, form.get("id", ""))
    words = [
        f"The token {token.id}, {token.state()} and made at {token.created_at:%Y-%m-%d %H:%M} UTC, is refused.",
        "For a minute at most, what the authorizer remembers still holds.",
        "URLs that it was given already live on until they expire.",
    ]
    line = ["token", "revoke", "--", person.name, token.id]
    return Plan(f"Revoke a token of {person.name}", words, line, _of(person), takes_away=True)


def _cut(provider: Provider, form: Form) -> Plan:
    person, live = _person(provider, form)
    words = [
        f"The next request of {person.name} is refused, by whatever key.",
        f"Its live tokens are revoked: {_tokens(live)}." if live else "It has no live token.",
        "URLs and credentials that it has already end within seconds, in each role that signs.",
        "Links and other keys do nothing for as long as it is cut off. Its grants stay.",
    ]
    line = ["recipient", "cut-off", "--yes", "--", person.name]
    return Plan(f"Cut off {person.name}", words, line, _of(person), takes_away=True)


def _restore(provider: Provider, form: Form) -> Plan:
    person, _ = _person(provider, form)
    words = [
        f"{person.name} is answered again, by links and keys that are not tokens.",
        "Its tokens stay revoked: invite it next.",
    ]
    return Plan(f"Restore {person.name}", words, ["recipient", "restore", "--", person.name], _of(person))


def _grant(provider: Provider, form: Form) -> Plan:
    person, _ = _person(provider, form)
    share = provider.admin.shares.get(form.get("share", ""))
    with suppress(NotFound):
        held = provider.admin.grants.get(person.name, share.name)
        raise InvalidParameter(f"{person.name} holds {held.share} already: change that grant, on its own page")
    rows, ends = _filter(form), _end(form)
    tables = list(provider.admin.tables.list(share.name, excerpt=Excerpt(limit=_SHOWN + 1)))
    words = [
        f"{person.name} may read of {share.name}: {rows or 'all rows that it shares'}.",
        f"Until {ends}." if ends else "Without an end.",
        f"Its tables now: {_names([one.schema_name + '.' + one.name for one in tables])}; and what is added to it.",
        *(["The filter is compared with the log of each of its tables first."] if rows else []),
        *_lacked(person, rows),
        *_cut_off(person),
    ]
    options = [*([f"--partition-filter={rows}"] if rows else []), *([f"--ends={ends}"] if ends else [])]
    line = ["grant", "create", *options, "--", person.name, share.name]
    return Plan(f"Grant {share.name} to {person.name}", words, line, _of(person))


def _change_grant(provider: Provider, form: Form) -> Plan:
    person, grant = _held(provider, form)
    rows, ends = _filter(form), _end(form)
    words = [
        f"Rows now: {grant.partition_filter or 'all that are shared'}.",
        f"Rows then: {rows or 'all that are shared'}.",
        *([f"It ends then: {ends}."] if ends else []),
        *(["The filter is compared with the log of each table of the share first."] if rows else []),
        *_lacked(person, rows),
        "It holds from the next request on. URLs that are out live on until they expire.",
    ]
    filtered = f"--partition-filter={rows}" if rows else "--no-partition-filter"
    line = ["grant", "update", filtered, *([f"--ends={ends}"] if ends else []), "--", person.name, grant.share]
    return Plan(f"Change what {person.name} reads of {grant.share}", words, line, _of(person))


def _revoke_grant(provider: Provider, form: Form) -> Plan:
    person, grant = _held(provider, form)
    words = [
        f"{person.name} may not read {grant.share} any more, from its next request on.",
        "URLs that it has already live on until they expire: to end them too, cut it off.",
    ]
    line = ["grant", "revoke", "--", person.name, grant.share]
    return Plan(f"Revoke {grant.share} from {person.name}", words, line, _of(person), takes_away=True)


def _filter_table(provider: Provider, form: Form) -> Plan:
    table = provider.admin.tables.get(*split_table_name(form.get("table", "")))
    rows, name = _filter(form), table.title
    held = provider.admin.grants.of_share(table.share, Excerpt(limit=_SHOWN + 1))
    words = [
        f"Rows now: {_rows(table)}.",
        f"Rows then: {rows or 'all'}.",
        f"It concerns who holds {table.share}: {_names([grant.recipient for grant in held])}.",
        *(["The filter is compared with the table's log first."] if rows else []),
        "It holds from the next request on. URLs that are out live on until they expire.",
    ]
    line = ["table", "update", f"--partition-filter={rows}" if rows else "--no-partition-filter", "--", name]
    return Plan(f"Change which rows of {name} are shared", words, line, ("/table", "table", name))


def _person(provider: Provider, form: Form) -> tuple[Recipient, list[Token]]:
    person = provider.admin.recipients.get(form.get("recipient", ""))
    now = datetime.now(UTC)
    return person, [token for token in provider.admin.tokens.list(person.id) if token.state(now) == "live"]


def _held(provider: Provider, form: Form) -> tuple[Recipient, Grant]:
    person = provider.admin.recipients.get(form.get("recipient", ""))
    return person, provider.admin.grants.get(person.name, form.get("share", ""))


def _endpoint(provider: Provider) -> str:
    if not provider.endpoint:
        raise InvalidParameter("nothing tells where the server is: start the console with --endpoint")
    return f"--endpoint={provider.endpoint}"


def _of(person: Recipient) -> tuple[str, str, str]:
    return "/recipient", "recipient", person.name


def _rows(table: Table) -> str:
    if table.view_properties is not None:
        raise InvalidParameter(f"{table.title} is a view, whose SQL says which rows each recipient sees")
    return table.partition_filter or "all"


def _duration(form: Form, name: str) -> str:
    text = form.get(name, "").strip().lower()
    if not _DURATION.fullmatch(text):
        raise InvalidParameter(f"'{text}' is not a duration: write 90d, 12h or 30m")
    return text


def _filter(form: Form) -> str:
    text = form.get("filter", "").strip()
    if text:
        parse(text)  # raises what is wrong with it; so does a file's name, which is for the command line
    return text


def _end(form: Form) -> str:
    text = form.get("ends", "").strip()
    if text and text != "never":
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise InvalidParameter(f"'{text}' is no date: write 2027-02-01, 2027-02-01T12:00Z, or never") from None
    return text


def _tokens(live: list[Token]) -> str:
    return ", ".join(f"{token.id} (to {token.expires_at:%Y-%m-%d %H:%M} UTC)" for token in live)


def _room(live: list[Token]) -> list[str]:
    full = 2
    if len(live) < full:
        return []
    return [f"It has two live tokens already ({_tokens(live)}): the link makes none before one of them has ended."]


def _cut_off(person: Recipient) -> list[str]:
    return [] if person.cut_off_at is None else [f"{person.name} is cut off: nothing is answered until it is restored."]


def _lacked(person: Recipient, rows: str) -> list[str]:
    missing = missing_for_filters(person.properties, [parse(rows)] if rows else [])
    return [f"{person.name} sees no rows by it: it lacks {', '.join(missing)}."] if missing else []


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN]) or "none"
    return f"{shown} and more" if len(names) > _SHOWN else shown


_ROWS: Final = Field("filter", "Rows", hint="a condition over partition columns, such as region = 'EU'; empty for all")
_ENDS: Final = Field("ends", "Ends", hint="2027-02-01, 2027-02-01T12:00Z or never; empty keeps what there is")
_UNTIL: Final = Field("ends", "Ends", hint="2027-02-01, 2027-02-01T12:00Z; empty for never")
_TOKEN_LIFE: Final = Field("expires", "The token lives for", "90d", "90d, 12h, 30m", is_needed=True)

ACTIONS: Final[Mapping[str, Action]] = {
    "invite": Action(
        "Invite",
        ("recipient",),
        _invite,
        (
            Field("expires", "The link can be used for", "72h", "72h, 7d", is_needed=True),
            Field("token_expires", "Its token lives for", "90d", "90d, 12h", is_needed=True),
            Field("note", "Note", hint="for yourself"),
        ),
    ),
    "rotate": Action(
        "Rotate the tokens",
        ("recipient",),
        _rotate,
        (Field("overlap", "The old ones still work for", "1d", "24h; 0 revokes them", is_needed=True), _TOKEN_LIFE),
    ),
    "revoke-token": Action("Revoke", ("recipient", "id"), _revoke_token),
    "cut-off": Action("Cut off", ("recipient",), _cut),
    "restore": Action("Restore", ("recipient",), _restore),
    "grant": Action("Grant a share", ("recipient",), _grant, (Field("share", "Share", is_needed=True), _ROWS, _UNTIL)),
    "change-grant": Action("Change", ("recipient", "share"), _change_grant, (_ROWS, _ENDS)),
    "revoke-grant": Action("Revoke", ("recipient", "share"), _revoke_grant),
    "filter": Action("Change which rows are shared", ("table",), _filter_table, (_ROWS,)),
}
"""By how the console's addresses call them."""
