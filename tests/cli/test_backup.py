"""A backup is the whole catalog and nothing secret; restored into an empty stack it is the same catalog there."""

import hashlib
import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cli.conftest import Deltaic
from deltaic.catalog import schema
from deltaic.catalog.admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Token
from deltaic.catalog.leases import Leases
from deltaic.catalog.tokens import TokenStore
from deltaic.errors import Unauthenticated
from deltaic_ops.backup import Backup, Tables, backup, from_text, restore, to_text
from hypothesis import given
from hypothesis import strategies as st

LISTS = (
    "share list",
    "schema list vaccine_share",
    "table list vaccine_share",
    "storage list",
    "recipient list",
    "grant list",
    "token list alice",
)


@pytest.fixture
def full(filled: Deltaic) -> Deltaic:
    """Return the command over a catalog with tokens, a storage with keys, and what passes by itself."""
    filled.done("token create alice --profile alice.share --expires 90d")
    filled.done("token create alice --profile old.share")
    revoked = filled.json("token list alice")[0]["id"]
    filled.done(f"token revoke alice {revoked}")
    filled.done("storage create vault --access-key-id AKIDEXAMPLE --secret-access-key-stdin", given="hush\n")
    filled.done("table create vaccine_share.acme.kept --location s3://bucket/kept --storage vault --history")
    return filled


@pytest.fixture
def elsewhere(deltaic: Deltaic, dynamodb: Any) -> Deltaic:
    """Return the command over another stack, which is empty."""
    unique = uuid4().hex
    named = {"CATALOG_TABLE": f"catalog-{unique}", "TOKENS_TABLE": f"tokens-{unique}"}
    schema.create(dynamodb, named["CATALOG_TABLE"], named["TOKENS_TABLE"])
    return replace(deltaic, variables={**deltaic.variables, **named})


@pytest.fixture
def tables(dynamodb: Any) -> Callable[[Deltaic], Tables]:
    return lambda stack: Tables(dynamodb, stack.variables["CATALOG_TABLE"], stack.variables["TOKENS_TABLE"])


def bearer(profile: str) -> str:
    return str(json.loads(Path(profile).read_text())["bearerToken"])


def test_every_list_and_every_profile_is_the_same_in_the_other_stack(
    full: Deltaic, elsewhere: Deltaic, dynamodb: Any
) -> None:
    full.done("backup copy.jsonl")
    said = elsewhere.json("restore copy.jsonl")
    assert {name: said[name] for name in ("shares", "tables", "storages", "tokens")} == {
        "shares": 1,
        "tables": 2,
        "storages": 2,
        "tokens": 2,
    }
    for line in LISTS:
        if line != "storage list":
            assert elsewhere.json(line) == full.json(line), line
    store = TokenStore(elsewhere.variables["TOKENS_TABLE"], Dynamo(lambda: dynamodb))
    before = TokenStore(full.variables["TOKENS_TABLE"], Dynamo(lambda: dynamodb))
    answers = []
    for profile in ("alice.share", "old.share"):
        found = [_asked(each, bearer(profile)) for each in (before, store)]
        assert found[0] == found[1]
        answers.append(found[1])
    assert sorted(answer is None for answer in answers) == [False, True]


def _asked(store: TokenStore, secret: str) -> Token | None:
    try:
        return store.authenticate(secret)
    except Unauthenticated:
        return None


def test_the_restored_catalog_goes_on_like_any_other(full: Deltaic, elsewhere: Deltaic) -> None:
    full.done("backup copy.jsonl")
    elsewhere.done("restore copy.jsonl")
    elsewhere.done("schema create vaccine_share.more")
    elsewhere.done("token create alice --profile new.share")
    elsewhere.done("table delete vaccine_share.acme.kept")
    elsewhere.done("storage delete vault")
    refused = elsewhere("schema delete vaccine_share.acme")
    assert refused.exit_code == 1
    assert "1 table" in refused.output


def test_no_secret_is_in_the_file_and_nobody_else_reads_it(full: Deltaic) -> None:
    told = full.done("backup copy.jsonl")
    text = Path("copy.jsonl").read_text()
    assert "2 tables" in told
    for secret in ("hush", "AKIDEXAMPLE", bearer("alice.share"), bearer("old.share")):
        assert secret not in text
    assert hashlib.sha256(bearer("alice.share").encode()).hexdigest() in text
    assert stat.S_IMODE(Path("copy.jsonl").stat().st_mode) == 0o600


def test_a_storages_keys_are_looked_for_where_the_other_stack_may_read_them(full: Deltaic, elsewhere: Deltaic) -> None:
    full.done("backup copy.jsonl")
    told = elsewhere.done("restore copy.jsonl")
    assert "deltaic storage update vault" in told
    catalog = elsewhere.variables["CATALOG_TABLE"]
    assert [one["secret"] for one in elsewhere.json("storage list") if one["name"] == "vault"] == [
        f"deltaic/storage/{catalog}/vault"
    ]


def test_what_passes_by_itself_is_left_out(full: Deltaic, dynamodb: Any, tables: Callable[[Deltaic], Tables]) -> None:
    from datetime import timedelta

    before = backup(tables(full))
    leases = Leases(full.variables["CATALOG_TABLE"], Dynamo(lambda: dynamodb))
    leases.acquire("s3://bucket/patients", "somebody", timedelta(minutes=1))
    assert backup(tables(full)).lines == before.lines


def test_a_restore_that_was_interrupted_goes_on(
    full: Deltaic, elsewhere: Deltaic, tables: Callable[[Deltaic], Tables]
) -> None:
    made = backup(tables(full))
    half = Backup(made.made, made.lines[: len(made.lines) // 2])
    assert restore(tables(elsewhere), half) == len(half.lines)
    assert restore(tables(elsewhere), made) == len(made.lines) - len(half.lines)
    assert restore(tables(elsewhere), made) == 0


@pytest.mark.parametrize(
    "line", ["share create other", "recipient create bob", "storage create minio --region eu-west-1"]
)
def test_two_catalogs_are_not_mixed(full: Deltaic, elsewhere: Deltaic, admin: CatalogAdmin, line: str) -> None:
    full.done("backup copy.jsonl")
    elsewhere.done(line)
    refused = elsewhere("restore copy.jsonl")
    assert (refused.exit_code, "empty stack" in refused.output) == (1, True)
    assert elsewhere.json("grant list") == []
    assert admin.recipients.get("alice").name == "alice"


def changed(lines: list[str]) -> list[str]:
    return [line.replace("vaccine", "poison") for line in lines]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda lines: lines[:-1], "cut short", id="without its end"),
        pytest.param(lambda lines: [*lines[:2], *lines[3:]], "cut short or was changed", id="without a line"),
        pytest.param(changed, "was changed", id="changed"),
        pytest.param(lambda lines: [*lines[:-1], lines[-1][:9]], "cut short", id="cut in its last line"),
        pytest.param(lambda lines: lines[1:], "no backup", id="without its beginning"),
        pytest.param(lambda _: ["{}\n"], "no backup", id="something else"),
        pytest.param(lambda _: [], "no backup", id="nothing"),
        pytest.param(lambda lines: ['{"deltaicBackup": 2, "made": ""}\n', *lines[1:]], "format 2", id="a later format"),
    ],
)
def test_half_a_file_restores_nothing(
    full: Deltaic, elsewhere: Deltaic, change: Callable[[list[str]], list[str]], message: str
) -> None:
    full.done("backup copy.jsonl")
    lines = Path("copy.jsonl").read_text().splitlines(keepends=True)
    Path("copy.jsonl").write_text("".join(change(lines)))
    refused = elsewhere("restore copy.jsonl")
    assert (refused.exit_code, message in refused.output) == (1, True), refused.output
    assert elsewhere.json("share list") == []


def test_a_file_that_is_there_is_not_written_over(full: Deltaic) -> None:
    Path("copy.jsonl").write_text("mine")
    assert full("backup copy.jsonl").exit_code == 1
    assert Path("copy.jsonl").read_text() == "mine"
    assert full("restore nowhere.jsonl").exit_code == 1


TEXT = st.text(max_size=8)
PLAIN = st.recursive(
    TEXT | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(st.tuples(st.sampled_from(["catalog", "tokens"]), st.dictionaries(TEXT, PLAIN, max_size=4)), max_size=4)
)
def test_what_is_written_is_what_is_read(lines: list[tuple[str, dict[str, Any]]]) -> None:
    made = Backup("2026-11-22T00:00:00Z", [(kind, {**item, "pk": "recipient/a", "sk": "x"}) for kind, item in lines])
    assert from_text(list(to_text(made)), "copy.jsonl") == made
