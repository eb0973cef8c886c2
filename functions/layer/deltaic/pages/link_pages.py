"""The pages behind a link: what it is for, the profile that it gave, and that it is gone."""

import base64
from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import NamedTuple

from deltaic.pages.html import document
from deltaic.pages.snippets import Example, snippets


class SharedNames(NamedTuple):
    """What a recipient may read, as far as a page has room for it."""

    shares: Sequence[tuple[str, Sequence[str]]]
    """Each share and `schema.table` of its first tables."""
    more: bool
    """Whether there is more than this."""


def offer(recipient: str, contact: str, names: SharedNames, token_ends: datetime) -> bytes:
    """Return the page that a link opens; looking at it uses nothing up."""
    return document(
        f"Data shared with {recipient}",
        f"<h1>Data shared with {escape(recipient)}</h1>\n"
        f"<p>{_from(contact)}This link makes your profile: a small file by which pandas, Spark, Power BI and other "
        "clients read what is shared with you.</p>\n"
        f"{_listed(names)}"
        "<h2>Get the profile</h2>\n"
        f"<p>This link makes <strong>one</strong> profile, which works until {_day(token_ends)}. Until you first read "
        "with it, the link shows it again. Whoever holds the file can read the data: keep it as you keep a "
        "password.</p>\n"
        '<form method="post"><button>Make the profile</button></form>',
    )


def activated(contact: str, names: SharedNames, example: Example, profile: str, token_ends: datetime) -> bytes:
    """Return the page that has the profile to download, and how it is used."""
    data = base64.b64encode(profile.encode()).decode()
    shown = (
        "".join(
            f"<details{' open' * (number == 0)}><summary>{escape(one.client)}</summary>\n"
            f"<pre tabindex=0>{escape(one.text)}</pre>\n"
            f"{f'<p class=soft>{escape(one.note)}</p>' if one.note else ''}</details>\n"
            for number, one in enumerate(snippets(example))
        )
        if example.table
        else "<p>No table is shared with you yet. The profile works as soon as one is.</p>\n"
    )
    return document(
        "Your profile",
        "<h1>Your profile is ready</h1>\n"
        "<p>Save it now: the link shows it again only until you first read with it, and nobody else can. It works "
        f"until {_day(token_ends)}.</p>\n"
        f'<a class=button download="{escape(example.profile)}" href="data:application/json;base64,{data}">'
        f"Save {escape(example.profile)}</a>\n"
        f"{_look(example)}"
        f"{_listed(names)}"
        "<h2>Read the data</h2>\n"
        f"<p class=soft>Put {escape(example.profile)} where you work, and choose your client.</p>\n"
        f"{shown}"
        f"<p class=soft>{_ask(contact)} for another link if the file is lost.</p>",
    )


def gone(contact: str) -> bytes:
    """Return the page of a link that is used, cancelled, expired, or never was."""
    return document(
        "This link does not work any more",
        "<h1>This link does not work any more</h1>\n"
        "<p>A link works for a few days and makes one profile. After you first read with that profile, the link ends "
        "and the file that you saved goes on working.</p>\n"
        f"<p>{_ask(contact)} for a new one.</p>",
    )


def full(contact: str) -> bytes:
    """Return the page of a link whose recipient has as many live tokens as one may have; the link stays open."""
    return document(
        "You have two profiles already",
        "<h1>You have two profiles already</h1>\n"
        "<p>More than two cannot work at once, so none was made, and this link still works.</p>\n"
        f"<p>{_ask(contact)} to end an old one, then open the link again.</p>",
    )


def elsewhere(contact: str) -> bytes:
    """Return the page for whoever asks from an address that the recipient may not use; the link stays open."""
    return document(
        "This link does not open from here",
        "<h1>This link does not open from here</h1>\n"
        "<p>The data is shared with certain networks only, and you are not in one of them. Nothing has been used up: "
        "open the link again from where you work with the data.</p>\n"
        f"<p>{_ask(contact)} if that is here.</p>",
    )


def _from(contact: str) -> str:
    return f"{escape(contact)} shares data with you. " if contact else ""


def _ask(contact: str) -> str:
    return f"Ask {escape(contact)}" if contact else "Ask whoever sent you the link"


def _day(moment: datetime) -> str:
    return f'<time datetime="{moment:%Y-%m-%dT%H:%M:%SZ}">{moment.day} {moment:%B %Y, %H:%M} UTC</time>'


def _look(example: Example) -> str:
    """Return the way to the page of tables; in a tab of its own, as this one is shown once."""
    if not example.explore:
        return ""
    return (
        f'<p>To see the data at once, <a href="{escape(example.explore)}" target="_blank" rel="noopener">open it in '
        f"the browser</a> (a new tab) and choose {escape(example.profile)} there. Nothing has to be installed.</p>\n"
    )


def _listed(names: SharedNames) -> str:
    if not names.shares:
        return ""
    shares = "".join(
        f"<li><strong>{escape(share)}</strong>"
        + (f"<ul>{''.join(f'<li>{escape(table)}</li>' for table in tables)}</ul>" if tables else "")
        + "</li>\n"
        for share, tables in names.shares
    )
    return f"<h2>What is shared</h2>\n<ul>\n{shares}</ul>\n{'<p class=soft>And more.</p>' if names.more else ''}\n"
