"""Test volumes, skills and models at /explore: folders, downloads, and texts without markup."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser.conftest import broken_rules, open_page
from client.provider import Provider, provide
from deltaic_ops.local.resources import DATA_BUCKET
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=\"document.title='taken'\">"
SKILL = f"---\nname: read-forms\ndescription: Reads forms.\n---\n# Forms\n{HOSTILE}\n"
WITHOUT_PICKER = "delete window.showSaveFilePicker"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with provide(tmp_path_factory.mktemp("folders")) as running:
        s3, admin, here = running.client("s3"), running.admin, f"s3://{DATA_BUCKET}"
        files = {f"vol/{number:04}.txt": b"x" for number in range(1001)}
        files |= {"vol/deep/er/a b.bin": bytes(range(256)), f"vol/deep/{HOSTILE.replace('/', '|')}.html": b"x"}
        for key, body in {**files, "skills/read-forms/SKILL.md": SKILL.encode(), "m/2/MLmodel": b"x: 1"}.items():
            s3.put_object(Bucket=DATA_BUCKET, Key=key, Body=body)
        schema = ("client_share", "tables")
        admin.volumes.create(*schema, "scans", f"{here}/vol", comment=HOSTILE)
        admin.skills.create(*schema, "read-forms", f"{here}/skills/read-forms", facts={"description": "Reads forms."})
        admin.models.create(*schema, "dosage", comment="by weight")
        for version in (2, 10):
            admin.models.add_version(*schema, "dosage", version, f"{here}/m/2", facts={"run_id": "abc"})
        yield running


@pytest.fixture
def page(browser: Browser, provider: Provider) -> Iterator[Page]:
    """Return the page after sign-in, in a browser that cannot write to disk."""
    with open_page(browser, f"{provider.endpoint}/explore") as page:
        page.evaluate(WITHOUT_PICKER)
        page.set_input_files("#file", str(provider.profile))
        expect(page.locator("#look")).to_be_visible()
        yield page


def choose(page: Page, name: str) -> None:
    page.get_by_role("navigation").get_by_role("button", name=name).click()
    expect(page.locator("#asset-name")).to_have_text(name.split(maxsplit=1)[0])


def test_volume_is_browsed_and_a_file_is_saved(page: Page) -> None:
    choose(page, "scans volume")
    expect(page.locator("#asset-comment")).to_have_text(HOSTILE)
    expect(page.locator("#file-count")).to_contain_text("and more")
    page.get_by_role("button", name="More").click()
    expect(page.locator("#file-count")).to_have_text("1,001 files here.")
    page.get_by_role("button", name="deep/", exact=True).click()
    expect(page.locator("#files")).to_contain_text("<img src=x")
    assert broken_rules(page) == []
    page.get_by_role("button", name="er/", exact=True).click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download a b.bin").click()
    assert saved.value.suggested_filename == "a b.bin"
    assert Path(saved.value.path()).read_bytes() == bytes(range(256))
    page.locator("#crumbs").get_by_role("button", name="deep").click()
    expect(page.locator("#file-count")).to_have_text("1 files here.")
    assert page.title() == "Shared tables"


def test_skill_is_shown_as_text(page: Page) -> None:
    choose(page, "read-forms skill")
    expect(page.locator("#skill")).to_have_text(SKILL)
    expect(page.locator("#asset-comment")).to_have_text("Reads forms.")
    assert page.locator("#skill *").count() == 0
    assert page.title() == "Shared tables"


def test_model_shows_its_versions(page: Page) -> None:
    choose(page, "dosage model")
    expect(page.locator("#versions li")).to_have_text(["Version 10 run abc", "Version 2 run abc"])
    page.get_by_role("button", name="Version 2").click()
    expect(page.locator("#files")).to_contain_text("MLmodel")
    assert broken_rules(page) == []


def test_missing_file_is_reported(page: Page, provider: Provider) -> None:
    s3 = provider.client("s3")
    s3.put_object(Bucket=DATA_BUCKET, Key="vol/zz/gone.txt", Body=b"x")
    choose(page, "scans volume")
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="zz/").click()
    download = page.get_by_role("button", name="Download gone.txt")
    expect(download).to_be_visible()
    s3.delete_object(Bucket=DATA_BUCKET, Key="vol/zz/gone.txt")
    download.click()
    expect(page.locator("#failure")).to_contain_text("no longer exists")
