"""The console's actions: for each its command, its form and its effects."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from deltaic_ops.console.plans import Action, Field

_URLS_STAY: Final = "The change applies to new requests. URLs that recipients already have work until they expire."
_PARTITIONS: Final = "filter on partition columns, such as region = 'EU'; empty for all"
_ROWS: Final = Field("filter", "Rows", "--partition-filter", hint=_PARTITIONS, kind="sql")
_CHANGED_ROWS: Final = replace(_ROWS, otherwise="--no-partition-filter")
_NEW_END: Final = Field("ends", "Ends", "--ends", hint="2027-02-01, 2027-02-01T12:00Z; empty for never")
_CHANGED_END: Final = replace(_NEW_END, hint="2027-02-01, 2027-02-01T12:00Z or never; empty for no change")
_SHARE: Final = Field("share", "Share", is_required=True)
_STORAGE: Final = Field("storage", "Storage", "--storage", hint="empty for AWS S3")
_HISTORY: Final = Field("history", "Share earlier versions and changes too", "--history", kind="box")
_COMMENT: Final = Field("comment", "Description", "--comment", hint="recipients see it")
_NOTE: Final = Field("comment", "Note", "--comment", hint="visible to operators only")
_NAME: Final = Field("name", "Name", is_required=True)
_FOLDER: Final = Field("location", "Location", "--location", hint="s3://bucket/path", is_required=True)
_LIFE: Final = Field("expires", "Token lifetime", "--expires", "90d", "90d, 12h, 30m", is_required=True)
_INVITATION: Final = (
    replace(_LIFE, label="Link lifetime", value="72h", hint="72h, 7d"),
    replace(_LIFE, name="token_expires", option="--token-expires"),
    Field("note", "Note", "--note", hint="visible to operators only"),
)
_OVERLAP: Final = Field("overlap", "Old tokens work for", "--overlap", "1d", "24h; 0 to revoke them", is_required=True)
_VIEW: Final = (
    _NAME,
    Field("source", "Source table", "--from", is_required=True, hint="share.schema.table"),
    Field("sql", "SQL", "--sql", "SELECT * FROM source", "one SELECT over source", is_required=True, kind="sql"),
    Field("keys", "Key columns", "--key", hint="one on each line; they identify a row", kind="lines"),
    Field("refresh", "Schedule (UTC)", "--refresh", hint="rate(1 hour) or cron(0 6 * * ? *); empty for none"),
    _HISTORY,
)
_LOAD: Final = (
    Field("file", "File", is_required=True, hint="path on this machine: CSV, TSV, Excel, JSON lines or Parquet"),
    _NAME,
    Field("to", "Location", "--to", hint="s3://bucket/path; empty on a local server"),
    Field("dates", "Order of dates", "--dates", hint="day-first or month-first; empty to detect it"),
    Field("decimal", "Decimal sign", "--decimal", hint="a period or a comma; empty to detect it"),
    Field("header", "First row names the columns", "--header", hint="yes or no; empty to detect it"),
    Field("sheet", "Sheet", "--sheet", hint="of an Excel file with several"),
    Field("types", "Types", "--types", hint="price=DECIMAL(10,2), one on each line", kind="lines"),
    Field("text", "Load all columns as text", "--text", kind="box"),
    Field("max_rejected", "Rows that may not fit", "--max-rejected", hint="they are listed in a file; empty for none"),
)
_PAIRS: Final = "for row filters; region=EU, one on each line"
_PROPERTIES: Final = Field("properties", "Properties", "--property", hint=_PAIRS, kind="lines")
_RECIPIENT: Final = "/recipient?recipient={recipient}"
_OF_RECIPIENT: Final = ("{recipient}",), ("recipient",), _RECIPIENT, _RECIPIENT
_OF_GRANT: Final = ("{recipient}", "{share}"), ("recipient", "share"), _RECIPIENT, _RECIPIENT
_SCHEMA: Final = "/schema?share={share}&schema={schema}"
_IN_SCHEMA: Final = ("{share}.{schema}.{name}",), ("share", "schema"), _SCHEMA
_TABLE: Final = "/table?table={table}"
_NEW_TABLE: Final = "/table?table={share}.{schema}.{name}"

ACTIONS: Final[Mapping[str, Action]] = {
    "create-share": Action(
        "Create a share", ("share", "create"), ("{name}",), (), "/shares", "/share?share={name}",
        ("Share {name} is created, without schemas. Nobody can read it until you grant it.",),
        (_NAME, _COMMENT),
    ),
    "create-schema": Action(
        "Create a schema in {share}", ("schema", "create"), ("{share}.{name}",), ("share",), "/share?share={share}",
        "/schema?share={share}&schema={name}", ("Schema {share}.{name} is created, without tables.",), (_NAME, _NOTE),
    ),
    "create-table": Action(
        "Share a table in {share}.{schema}", ("table", "create"), *_IN_SCHEMA, _NEW_TABLE,
        ("The table at {location} is shared as {share}.{schema}.{name}: {rows}.",
         "Recipients who can read it at once: {readers}.", "Its files do not change."),
        (_FOLDER, _NAME, _HISTORY, _ROWS, _STORAGE),
    ),
    "load-table": Action(
        "Load a file into {share}.{schema}", ("table", "load", "--yes"), ("{share}.{schema}.{name}", "{file}"),
        ("share", "schema"), _SCHEMA, _NEW_TABLE,
        ("The rows of {file} become table {share}.{schema}.{name}, and the table is shared.",
         "Recipients who can read it at once: {readers}."), _LOAD,
    ),
    "create-view": Action(
        "Create a view in {share}.{schema}", ("view", "create"), *_IN_SCHEMA, _NEW_TABLE,
        ("View {share}.{schema}.{name} of {source} is created. It has no rows until its first refresh.",), _VIEW,
    ),
    "create-volume": Action(
        "Share a folder in {share}.{schema}", ("volume", "create"), *_IN_SCHEMA, f"{_SCHEMA}&kind=volume",
        ("All files in {location} are shared, also those that are added later.",
         "Recipients who can read them at once: {readers}."),
        (_FOLDER, _NAME, _COMMENT, _STORAGE),
    ),
    "create-recipient": Action(
        "Create a recipient", ("recipient", "create"), ("{name}",), (), "/recipients", "/recipient?recipient={name}",
        ("Recipient {name} is created. To read, it also needs a grant and a link.",), (_NAME, _NOTE, _PROPERTIES),
    ),
    "invite": Action(
        "Invite {recipient}", ("recipient", "invite"), *_OF_RECIPIENT,
        ("Deltaic creates a link and shows it once.", "The link works for {expires}.",
         "Opening it creates a token of {recipient}, valid for {token_expires}.", "{live_tokens}", "{state}"),
        _INVITATION, shows_link=True,
    ),
    "rotate": Action(
        "Rotate the tokens of {recipient}", ("token", "rotate", "--link"), *_OF_RECIPIENT,
        ("Deltaic creates a link and shows it once.",
         "The link works for 72h. Opening it creates a token of {recipient}, valid for {expires}.",
         "Tokens that are live then {old_tokens}.", "{live_tokens}", "{state}"),
        (_OVERLAP, _LIFE), shows_link=True,
    ),
    "revoke-token": Action(
        "Revoke a token of {recipient}", ("token", "revoke"), ("{recipient}", "{id}"), ("recipient", "id"),
        _RECIPIENT, _RECIPIENT,
        ("{token} is revoked.",
         "Requests with it can succeed for up to a minute, because the authorizer caches tokens.",
         "Signed URLs that the recipient already has work until they expire."), is_destructive=True,
    ),
    "cut-off": Action(
        "Cut off {recipient}", ("recipient", "cut-off", "--yes"), *_OF_RECIPIENT,
        ("All requests of {recipient} are rejected from now on, and its live tokens are revoked.", "{live_tokens}",
         "URLs and credentials that it already has stop working within seconds.",
         "Its links and other credentials do not work while it is cut off. Its grants stay."), is_destructive=True,
    ),
    "restore": Action(
        "Restore {recipient}", ("recipient", "restore"), *_OF_RECIPIENT,
        ("Requests of {recipient} are allowed again, with its clients and policies, and through its links.",
         "Its tokens stay revoked. Send it a new link with Invite."),
    ),
    "grant": Action(
        "Grant a share to {recipient}", ("grant", "create"), ("{recipient}", "{share}"), ("recipient",), _RECIPIENT,
        _RECIPIENT,
        ("{recipient} can read share {share}: {rows}.", "Tables of the share: {tables}.",
         "The grant also covers tables that are added later.", "{state}"),
        (_SHARE, _ROWS, _NEW_END),
    ),
    "change-grant": Action(
        "Change the grant of {share} to {recipient}", ("grant", "update"), *_OF_GRANT,
        ("Rows now: {granted_rows}.", "Rows after the change: {rows}.", _URLS_STAY), (_CHANGED_ROWS, _CHANGED_END),
    ),
    "revoke-grant": Action(
        "Revoke {share} from {recipient}", ("grant", "revoke"), *_OF_GRANT,
        ("{recipient} can no longer read share {share}.",
         "URLs that it already has work until they expire. To stop these too, cut off the recipient."),
        is_destructive=True,
    ),
    "filter": Action(
        "Filter the rows of {table}", ("table", "update"), ("{table}",), ("table",), _TABLE, _TABLE,
        ("Rows now: {table_rows}.", "Rows after the change: {rows}.", "Recipients of the share: {readers}.",
         _URLS_STAY), (_CHANGED_ROWS,),
    ),
}  # fmt: skip
"""Actions by the value of the query parameter `action`."""
