"""Plan actions: build the `deltaic` command of a filled-in form, run the command's checks, and describe its effects."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote

from deltaic.catalog.admin.records import Excerpt
from deltaic.catalog.items import Recipient
from deltaic.errors import DeltaicError, InvalidParameter
from deltaic.protocol.names import split_table_name

from deltaic_ops.console.provider import Provider, Rehearsal

Form = Mapping[str, str]
_MAX_NAMES: Final = 10
_SHORTEST: Final = 3
"""Minimum length of a value for which an error message that contains it, without quotes, is about its field."""


@dataclass(frozen=True, slots=True)
class Field:
    """An input field of an action's form, and the command-line option that it fills in."""

    name: str
    label: str
    option: str = ""
    """Option of the command; empty if the value is part of the command's names."""
    value: str = ""
    hint: str = ""
    is_required: bool = False
    kind: Literal["text", "sql", "lines", "box"] = "text"
    """A line of text; SQL, which the command must not read from a file; one option for each line; a check box."""
    otherwise: str = ""
    """Option for an empty value."""

    def arguments(self, value: str) -> list[str]:
        """Return the options for a value of this field; raises InvalidParameter with the field's name as detail."""
        if not value and self.is_required:
            raise InvalidParameter("this field is empty: fill it in", self.name)
        if self.kind == "sql" and value.startswith("@"):
            raise InvalidParameter("only the command line reads files: type the SQL itself", self.name)
        if not value or not self.option:
            return [self.otherwise] if self.otherwise else []
        values = value.splitlines() if self.kind == "lines" else [value]
        return [
            self.option if self.kind == "box" else f"{self.option}={line.strip()}" for line in values if line.strip()
        ]


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """Effects of an action on chosen entries, and the command that carries it out."""

    title: str
    name: str
    page: str
    """URL of the page of the new or changed entry."""
    effects: list[str]
    arguments: list[str]
    """Arguments of the command after `deltaic` and its global options."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action that operators can plan and carry out; its texts are templates with names of parameters and fields."""

    title: str
    words: tuple[str, ...]
    """Words of the command, and options that it always has."""
    names: tuple[str, ...]
    """Names that follow the options on the command line."""
    parameters: tuple[str, ...]
    """Names of the query parameters that identify the changed entry, or the entry that contains the new one."""
    back: str
    """URL of the page that has the link to this action."""
    page: str
    """URL of the page of the new or changed entry."""
    effects: tuple[str, ...]
    """What happens; these templates also name facts (`PlanFacts`). Lines without text are left out."""
    fields: tuple[Field, ...] = ()
    is_destructive: bool = False
    shows_link: bool = False
    """Whether the command prints an invitation link, which the console shows once."""

    def values(self, form: Form) -> dict[str, str]:
        """Return the values of the parameters and fields; missing ones are empty."""
        return {name: form.get(name, "").strip() for name in (*self.parameters, *(each.name for each in self.fields))}

    def url(self, template: str, form: Form) -> str:
        """Return a URL for a form: `back` or `page`."""
        return template.format_map({name: quote(value, safe="") for name, value in self.values(form).items()})

    def rehearse(self, provider: Provider, form: Form) -> Rehearsal:
        """Make the checks of the command for a form; raises the command's error, see `field_at_fault`."""
        return provider.rehearse(self._arguments(provider, self.values(form)))

    def plan(self, provider: Provider, form: Form) -> ActionPlan:
        """Return the plan for a form; raises InvalidParameter for an empty or unsuitable field."""
        values = self.values(form)
        facts = PlanFacts(provider, values)
        effects = [line for template in self.effects if (line := template.format_map(facts))]
        names = [template.format_map(values) for template in self.names]
        title, page = self.title.format_map(values), self.url(self.page, form)
        return ActionPlan(title, names[0], page, effects, self._arguments(provider, values))

    def _arguments(self, provider: Provider, values: Form) -> list[str]:
        options = [option for each in self.fields for option in each.arguments(values[each.name])]
        if self.shows_link and not provider.endpoint:
            raise InvalidParameter("the endpoint of the server is unknown: start the console with --endpoint")
        options += [f"--endpoint={provider.endpoint}"] if self.shows_link else []
        if self.parameters and "." in values.get("name", ""):
            raise InvalidParameter(f"'{values['name']}' contains a period: use _ instead", "name")
        return [*self.words, *options, "--", *(template.format_map(values) for template in self.names)]

    def message(self, error: DeltaicError) -> str:
        """Return an error's message with labels of fields for their options, and without other options."""
        labels = {each.option: each.label for each in self.fields}
        message = re.sub(r"--[a-z-]+", lambda option: labels.get(option[0], option[0]), error.message)
        return re.sub(r", or [^,]* with --[a-z-]+", "", message)

    def field_at_fault(self, form: Form, error: DeltaicError) -> str:
        """Return the name of the field that an error is about; empty if it is unknown."""
        values, message = self.values(form), error.message
        named = [each for each in self.fields if error.detail and error.detail in {each.name, each.option}]
        longest = sorted((each for each in self.fields if values[each.name]), key=lambda each: -len(values[each.name]))
        quoted = [each for each in longest if f"'{values[each.name]}'" in message]
        options = [each for each in self.fields if each.option and f"{each.option} " in message]
        mentioned = [each for each in longest if len(values[each.name]) >= _SHORTEST and values[each.name] in message]
        sql = [each for each in self.fields if each.kind == "sql" and re.search("filter|SQL", message)]
        return next((each.name for each in [*named, *quoted, *options, *mentioned, *sql]), "")


class PlanFacts(dict[str, str]):
    """The values of a form, and facts of the catalog, which are read when a template names them."""

    def __init__(self, provider: Provider, form: Form) -> None:
        super().__init__(form)
        self._admin = provider.admin

    def __missing__(self, name: str) -> str:
        """Return a fact: the result of the method with its name."""
        return str(getattr(self, f"_{name}")())

    def _recipient(self) -> Recipient:
        return self._admin.recipients.get(self["recipient"])

    def _live_tokens(self) -> str:
        live = (token for token in self._admin.tokens.list(self._recipient().id) if token.state() == "live")
        return f"Live tokens: {_join(f'{each.id} (expires {each.expires_at:%Y-%m-%d %H:%M} UTC)' for each in live)}."

    def _old_tokens(self) -> str:
        return "are revoked at once" if self["overlap"] == "0" else f"work for at most {self['overlap']}"

    def _state(self) -> str:
        recipient = self._recipient()
        is_cut_off = recipient.cut_off_at is not None
        return f"{recipient.name} is cut off: all its requests are rejected until you restore it." if is_cut_off else ""

    def _token(self) -> str:
        token = self._admin.tokens.get(self._recipient(), self["id"])
        return f"Token {token.id} ({token.state()}, created at {token.created_at:%Y-%m-%d %H:%M} UTC)"

    def _rows(self) -> str:
        return self["filter"] or "all shared rows"

    def _granted_rows(self) -> str:
        return self._admin.grants.get(self["recipient"], self["share"]).partition_filter or "all shared rows"

    def _table_rows(self) -> str:
        return self._admin.tables.get(*split_table_name(self["table"])).partition_filter or "all"

    def _tables(self) -> str:
        tables = self._admin.tables.list(self["share"], excerpt=Excerpt(limit=_MAX_NAMES + 1))
        return _join(f"{table.schema_name}.{table.name}" for table in tables)

    def _readers(self) -> str:
        share = self.get("share") or split_table_name(self["table"])[0]
        return _join(grant.recipient for grant in self._admin.grants.of_share(share, Excerpt(limit=_MAX_NAMES + 1)))


def _join(names: Iterable[str]) -> str:
    known = list(names)
    text = ", ".join(known[:_MAX_NAMES]) or "none"
    return f"{text} and more" if len(known) > _MAX_NAMES else text
