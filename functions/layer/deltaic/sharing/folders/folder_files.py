"""The files of a shared folder for recipients who take no credentials: listed by the server, read by signed URLs."""

from datetime import UTC, datetime
from typing import Any

from deltaic.protocol import json_bodies
from deltaic.protocol.continuations import ListingBinding, open_list_token, seal_list_token
from deltaic.protocol.files_request import MAX_KEY_BYTES, FilesRequest, UrlsRequest, is_name
from deltaic.sharing.caller import Caller
from deltaic.sharing.context import Sharing
from deltaic.sharing.folders.shared_folder import AssetKind, AssetName, SharedFolder, open_folder
from deltaic.storage.folder_objects import FolderObject, head_objects, list_page
from deltaic.storage.signing import UrlSigner


def list_files(sharing: Sharing, caller: Caller, kind: AssetKind, name: AssetName, request: FilesRequest) -> bytes:
    """Return a page of a folder's files; raises NotFound, UnsupportedOperation where it is shared by directory only."""
    folder = _by_url(sharing, caller, kind, name)
    now = sharing.clock()
    call = f"files/{folder.entry.id}/{folder.location.uri}/{request.delimiter}/{request.prefix}"
    listing = ListingBinding(caller.recipient_id, call, name.share, name.schema)
    after = None
    if request.page_token is not None:
        after = open_list_token(sharing.signer, request.page_token, listing, now=now)
    page = list_page(
        sharing.sessions.credentials(caller.recipient_id, folder.storage),
        folder.storage,
        folder.location,
        prefix=request.prefix,
        delimiter=request.delimiter,
        after=after or "",
        limit=request.max_results,
    )
    files = [each for each in page.objects if is_name(each.name)]
    folders = [each for each in page.folders if is_name(each[:-1])]
    marks = sum(each.name == "" or (each.name.endswith("/") and not each.size) for each in page.objects)
    body: dict[str, Any] = {"items": [_told(each) for each in files]}
    if request.delimiter:
        body["folders"] = folders
    if left_out := len(page.objects) - len(files) - marks + len(page.folders) - len(folders):
        body["leftOut"] = left_out
    if page.next:
        body["nextPageToken"] = seal_list_token(sharing.signer, listing, page.next, now=now)
    return json_bodies.encode(body)


def sign_files(sharing: Sharing, caller: Caller, kind: AssetKind, name: AssetName, request: UrlsRequest) -> bytes:
    """Return URLs of files, each looked at first: sizes count against the recipient's bytes, and what is gone is told.

    Raises NotFound for the folder, UnsupportedOperation where it is shared by directory only.
    """
    folder = _by_url(sharing, caller, kind, name)
    reader = sharing.sessions.file_reader(folder.storage)
    start = folder.location.key_prefix
    # At a longer key S3 refuses to look, and says no more than a proxy in trouble would.
    possible = [name for name in request.names if len(f"{start}{name}".encode()) <= MAX_KEY_BYTES]
    there = [each for each in head_objects(reader, folder.storage, folder.location, possible) if each is not None]
    now = datetime.fromtimestamp(int(sharing.clock()), UTC)
    keys = sharing.sessions.credentials(caller.recipient_id, folder.storage)
    signer = UrlSigner(keys, folder.storage, folder.location, ttl=sharing.url_ttl, now=now)
    session = sharing.sessions.name_of(caller.recipient_id, folder.storage)
    caller.audit.signed(session, now.timestamp(), signer.expires_at_ms / 1000)
    caller.audit.metrics.add(len(there), sum(each.size for each in there))
    found = {each.name for each in there}
    missing = [name for name in request.names if name not in found]
    return json_bodies.encode({
        "items": [{**_told(each), "url": signer.url(each.name)} for each in there],
        **({"missing": missing} if missing else {}),
        "expirationTime": signer.expires_at_ms,
    })  # fmt: skip


def _by_url(sharing: Sharing, caller: Caller, kind: AssetKind, name: AssetName) -> SharedFolder:
    folder = open_folder(sharing, caller, kind, name)
    folder.require_url_access()
    return folder


def _told(found: FolderObject) -> dict[str, Any]:
    return {"name": found.name, "size": found.size, "lastModified": found.modified_ms, "etag": found.etag}
