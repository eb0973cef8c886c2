"""A backup is the whole catalog and nothing secret; restored into an empty stack it is the same catalog there."""

import hashlib
import json
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from cli.conftest import Deltaic
from deltaic.catalog import keys, schema
from deltaic.catalog.admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Token, View, ViewPartition, now
from deltaic.catalog.leases import Leases
from deltaic.catalog.tokens import TokenStore
from deltaic.catalog.writes import put_new
from deltaic.errors import InvalidParameter, Unauthenticated
from deltaic_ops.backup import Backup, Tables, backup, from_text, restore, to_text
from deltaic_ops.local.embedded import EmbeddedAws
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


def stack_of(aws: EmbeddedAws, dynamodb: Any) -> Deltaic:
    """Return the command over a stack of its own, which is empty."""
    unique = uuid4().hex
    named = {"CATALOG_TABLE": f"catalog-{unique}", "TOKENS_TABLE": f"tokens-{unique}"}
    schema.create(dynamodb, named["CATALOG_TABLE"], named["TOKENS_TABLE"])
    return Deltaic({**aws.environment, **named, "DELTAIC_ENDPOINT": "https://shares.test/delta-sharing/"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the profiles of the full stack are, and its backup."""
    return tmp_path_factory.mktemp("backup")


@pytest.fixture(scope="module")
def full(embedded_aws: EmbeddedAws, aws_session: boto3.Session, folder: Path) -> Deltaic:
    """Return the command over a catalog with one of each thing, tokens, a storage with keys; backed up once."""
    dynamodb = aws_session.client("dynamodb", endpoint_url=embedded_aws.endpoint)
    stack = stack_of(embedded_aws, dynamodb)
    for line in (
        "share create vaccine_share",
        "schema create vaccine_share.acme",
        "table create vaccine_share.acme.patients --location s3://bucket/patients --unchecked",
        "storage create minio --endpoint http://minio:9000 --path-style",
        "recipient create alice",
        "grant create alice vaccine_share",
        f"token create alice --profile {folder}/alice.share --expires 90d",
        f"token create alice --profile {folder}/old.share",
    ):
        stack.done(line)
    stack.done(f"token revoke alice {stack.json('token list alice')[0]['id']}")
    stack.done("storage create vault --access-key-id AKIDEXAMPLE --secret-access-key-stdin", given="hush\n")
    stack.done("table create vaccine_share.acme.kept --location s3://bucket/kept --storage vault --history --unchecked")
    stack.done("recipient update alice --property site=Turku --property teams=a --property teams=b")
    narrow(stack, Dynamo(lambda: dynamodb))
    assert "2 tables" in stack.done(f"backup {folder}/copy.jsonl")
    return stack


def narrow(stack: Deltaic, dynamo: Dynamo) -> None:
    """Add what keeps rows and columns back, a view and a variant of it; there are no tables that it could not fit."""
    catalog = stack.variables["CATALOG_TABLE"]
    admin = CatalogAdmin(catalog, stack.variables["TOKENS_TABLE"], dynamo)
    admin.grants.update("alice", "vaccine_share", partition_filter="site = current_recipient('site')")
    table = admin.tables.update(
        "vaccine_share", "acme", "patients", partition_filter="year >= 2024", hidden_columns=["site", "year"]
    )
    view = View(
        share=table.share,
        schema_name=table.schema_name,
        name="view",
        table_id=table.id,
        source="vaccine_share.acme.patients",
        sql="SELECT * FROM source",
        last_refresh={"rows": 3, "why": ["new recipient"]},
        created_at=now(),
    )
    partition = ViewPartition(
        table_id=table.id, audience="0" * 32, since_version=7, values={"teams": ["a", "b"]}, created_at=now()
    )
    dynamo.transact([
        put_new(catalog, keys.view(table.share, table.schema_name, "view"), view.attributes()),
        put_new(catalog, keys.view_partition(table.share, table.id, partition.audience), partition.attributes()),
    ])  # fmt: skip


@pytest.fixture
def elsewhere(full: Deltaic, embedded_aws: EmbeddedAws, dynamodb: Any) -> Deltaic:
    """Return the command over another stack, which is empty, while there is a backup of the full one."""
    assert full.variables["CATALOG_TABLE"]
    return stack_of(embedded_aws, dynamodb)


@pytest.fixture
def tables(dynamodb: Any) -> Callable[[Deltaic], Tables]:
    return lambda stack: Tables(dynamodb, stack.variables["CATALOG_TABLE"], stack.variables["TOKENS_TABLE"])


def bearer(profile: Path) -> str:
    return str(json.loads(profile.read_text())["bearerToken"])


def test_every_list_and_every_profile_is_the_same_in_the_other_stack(
    full: Deltaic, elsewhere: Deltaic, dynamodb: Any, folder: Path
) -> None:
    said = elsewhere.json(f"restore {folder}/copy.jsonl")
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
        found = [_asked(each, bearer(folder / profile)) for each in (before, store)]
        assert found[0] == found[1]
        answers.append(found[1])
    assert sorted(answer is None for answer in answers) == [False, True]


def test_what_keeps_rows_back_is_the_same_in_the_other_stack(
    full: Deltaic, elsewhere: Deltaic, dynamodb: Any, folder: Path
) -> None:
    elsewhere.done(f"restore {folder}/copy.jsonl")
    table = elsewhere.json("table show vaccine_share.acme.patients")
    assert (table["partitionFilter"], table["hiddenColumns"]) == ("year >= 2024", ["site", "year"])
    assert elsewhere.json("recipient show alice")["properties"] == {"site": "Turku", "teams": ["a", "b"]}
    rows = elsewhere.json("grant show alice vaccine_share")
    wanted = [
        keys.view("vaccine_share", "acme", "view"),
        keys.view_partition("vaccine_share", table["id"], "0" * 32),
        keys.recipient_id(rows["recipientId"]),
        keys.grant(rows["recipientId"], "vaccine_share"),
        keys.grantee("vaccine_share", rows["recipientId"]),
    ]
    before, after = (
        Dynamo(lambda: dynamodb).batch_get(stack.variables["CATALOG_TABLE"], wanted) for stack in (full, elsewhere)
    )
    assert after == before
    assert ViewPartition.read(after[wanted[1]]).values == {"teams": ["a", "b"]}
    assert after[wanted[2]]["properties"] == {"site": "Turku", "teams": '["a","b"]'}
    assert [after[key]["partition_filter"] for key in wanted[3:]] == ["site = current_recipient('site')"] * 2


def _asked(store: TokenStore, secret: str) -> Token | None:
    try:
        return store.authenticate(secret)
    except Unauthenticated:
        return None


def test_the_restored_catalog_goes_on_like_any_other(elsewhere: Deltaic, folder: Path) -> None:
    elsewhere.done(f"restore {folder}/copy.jsonl")
    elsewhere.done("schema create vaccine_share.more")
    elsewhere.done(f"token create alice --profile {folder}/new.share")
    elsewhere.done("table delete vaccine_share.acme.kept")
    elsewhere.done("storage delete vault")
    refused = elsewhere("schema delete vaccine_share.acme")
    assert refused.exit_code == 1
    assert "1 table" in refused.output


@pytest.mark.usefixtures("full")
def test_no_secret_is_in_the_file_and_nobody_else_reads_it(folder: Path) -> None:
    text = (folder / "copy.jsonl").read_text()
    for secret in ("hush", "AKIDEXAMPLE", bearer(folder / "alice.share"), bearer(folder / "old.share")):
        assert secret not in text
    assert hashlib.sha256(bearer(folder / "alice.share").encode()).hexdigest() in text
    assert stat.S_IMODE((folder / "copy.jsonl").stat().st_mode) == 0o600


def test_a_storages_keys_are_looked_for_where_the_other_stack_may_read_them(elsewhere: Deltaic, folder: Path) -> None:
    told = elsewhere.done(f"restore {folder}/copy.jsonl")
    assert "deltaic storage update vault" in told
    catalog = elsewhere.variables["CATALOG_TABLE"]
    assert [one["secret"] for one in elsewhere.json("storage list") if one["name"] == "vault"] == [
        f"deltaic/storage/{catalog}/vault"
    ]


def test_what_passes_by_itself_is_left_out(full: Deltaic, dynamodb: Any, tables: Callable[[Deltaic], Tables]) -> None:
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


@pytest.mark.parametrize("line", ["recipient create bob", "storage create minio --region eu-west-1"])
def test_two_catalogs_are_not_mixed(elsewhere: Deltaic, folder: Path, line: str) -> None:
    elsewhere.done(line)
    refused = elsewhere(f"restore {folder}/copy.jsonl")
    assert (refused.exit_code, "empty stack" in refused.output) == (1, True)
    assert elsewhere.json("grant list") == elsewhere.json("share list") == []


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
def test_half_a_file_is_none(change: Callable[[list[str]], list[str]], message: str) -> None:
    items = [{"pk": "shares", "sk": f"share/{name}", "name": name} for name in ("vaccine", "b", "c")]
    lines = list(to_text(Backup("2026-11-22T00:00:00Z", [("catalog", item) for item in items])))
    with pytest.raises(InvalidParameter, match=message):
        from_text(change(lines), "copy.jsonl")


def test_half_a_file_restores_nothing(elsewhere: Deltaic, folder: Path) -> None:
    (folder / "half.jsonl").write_text((folder / "copy.jsonl").read_text()[:-1])
    refused = elsewhere(f"restore {folder}/half.jsonl")
    assert (refused.exit_code, "cut short" in refused.output) == (1, True), refused.output
    assert elsewhere.json("share list") == []


def test_a_file_that_is_there_is_not_written_over(full: Deltaic, folder: Path) -> None:
    (folder / "mine.jsonl").write_text("mine")
    assert full(f"backup {folder}/mine.jsonl").exit_code == 1
    assert (folder / "mine.jsonl").read_text() == "mine"
    assert full(f"restore {folder}/nowhere.jsonl").exit_code == 1


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
