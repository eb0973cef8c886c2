"""HTML pages of an invitation link: what it offers, the created profile, and why a link does not work."""

import base64
from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import NamedTuple

from deltaic.pages.html import COPY_BUTTONS, document
from deltaic.pages.snippets import Example, snippets


class SharedNames(NamedTuple):
    """Names of the first shares and tables that a recipient may read, for display on a page."""

    shares: Sequence[tuple[str, str, Sequence[str]]]
    """Name and comment of each share, with the names of its first tables as `schema.table`."""
    more: bool
    """Whether the recipient may read more shares or tables than the named ones."""


def offer(recipient: str, contact: str, names: SharedNames, token_ends: datetime) -> bytes:
    """Return the page that a link opens: a description of the shared data. The link can be opened again."""
    return document(
        f"Data shared with {recipient}",
        f"<h1>Data shared with {escape(recipient)}</h1>\n"
        f"<p>{_introduction(contact)}This link creates your profile: a small file with which pandas, Spark, Power BI "
        "and other clients read the data.</p>\n"
        f"{_shared_list(names)}"
        "<h2>Get the profile</h2>\n"
        f"<p>This link creates <strong>one</strong> profile, which works until {_format_time(token_ends)}. Everybody "
        "who has the file can read the data: protect it like a password.</p>\n"
        "<p class=note><strong>Save the file at once.</strong> This link shows it only until you first read data with "
        "it. After that, nobody can show it again.</p>\n"
        '<form method="post"><button>Create the profile</button></form>',
    )


def activated(contact: str, names: SharedNames, example: Example, profile: str, token_ends: datetime) -> bytes:
    """Return the page with the profile to download, and with code that uses the profile to read the data."""
    data = base64.b64encode(profile.encode()).decode()
    instructions = (
        "".join(
            f"<details{' open' * (number == 0)}><summary>{escape(snippet.client)}</summary>\n"
            f"<pre tabindex=0>{escape(snippet.text)}</pre>\n"
            f"{f'<p class=soft>{escape(snippet.note)}</p>' if snippet.note else ''}</details>\n"
            for number, snippet in enumerate(snippets(example))
        )
        if example.table
        else "<p>No table is shared with you yet. The profile works as soon as a table is shared.</p>\n"
    )
    return document(
        "Your profile",
        "<h1>Your profile is ready</h1>\n"
        "<p>Save it now: the link shows it again only until you first read data with it, and nobody else can show it. "
        f"It works until {_format_time(token_ends)}.</p>\n"
        f'<a class=button download="{escape(example.profile)}" href="data:application/json;base64,{data}">'
        f"Save {escape(example.profile)}</a>\n"
        f"{_explore_link(example)}"
        f"{_shared_list(names)}"
        "<h2>Read the data</h2>\n"
        f"<p class=soft>Copy {escape(example.profile)} to your working folder, and choose your client.</p>\n"
        f"{instructions}"
        f"<p class=soft>{_ask_provider(contact)} for another link if you lose the file.</p>\n{COPY_BUTTONS}",
    )


def inactive_link(contact: str) -> bytes:
    """Return the page for a link that is used, cancelled, expired or unknown."""
    return _message(
        "This link no longer works",
        "A link works for a few days and creates one profile. When you first read data with that profile, the link "
        "ends, and the file that you saved still works.",
        f"{_ask_provider(contact)} for a new one.",
    )


def too_many_profiles(contact: str) -> bytes:
    """Return the page for a recipient with the maximum number of valid tokens; the link stays valid."""
    return _message(
        "You have two profiles already",
        "Two is the maximum, so no profile was created. This link still works.",
        f"{_ask_provider(contact)} to revoke an old profile, then open the link again.",
    )


def wrong_network(contact: str) -> bytes:
    """Return the page for a request from an IP address that the recipient may not use; the link stays valid."""
    return _message(
        "This link does not work in this network",
        "The data is shared only with certain networks, and this is not one of them. The link is not used up: open "
        "it again in the network where you work with the data.",
        f"{_ask_provider(contact)} if this is that network.",
    )


def _message(title: str, *paragraphs: str) -> bytes:
    return document(title, f"<h1>{title}</h1>\n" + "\n".join(f"<p>{text}</p>" for text in paragraphs))


def _introduction(contact: str) -> str:
    return f"{escape(contact)} shares data with you. " if contact else ""


def _ask_provider(contact: str) -> str:
    return f"Ask {escape(contact)}" if contact else "Ask the sender of this link"


def _format_time(time: datetime) -> str:
    return f'<time datetime="{time:%Y-%m-%dT%H:%M:%SZ}">{time.day} {time:%B %Y, %H:%M} UTC</time>'


def _explore_link(example: Example) -> str:
    """Return a link to the explore page, which opens in a new tab because this page is shown only once."""
    if not example.explore:
        return ""
    return (
        f'<p>To see the data at once, <a href="{escape(example.explore)}" target="_blank" rel="noopener">open it in '
        f"the browser</a> (a new tab) and choose {escape(example.profile)} there. You need not install anything.</p>\n"
    )


def _shared_list(names: SharedNames) -> str:
    if not names.shares:
        return "<h2>Shared tables</h2>\n<p>Nothing is shared with you yet. The profile works as soon as it is.</p>\n"
    shares = "".join(
        f"<li><strong>{escape(share)}</strong>"
        + (f"<br><span class=soft>{escape(comment)}</span>" if comment else "")
        + (f"<ul>{''.join(f'<li>{escape(table)}</li>' for table in tables)}</ul>" if tables else "")
        + ("" if tables or names.more else "<br>This share has no tables yet.")
        + "</li>\n"
        for share, comment, tables in names.shares
    )
    return f"<h2>Shared tables</h2>\n<ul>\n{shares}</ul>\n{'<p class=soft>And more.</p>' if names.more else ''}\n"
