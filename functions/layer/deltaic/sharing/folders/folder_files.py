"""List the files of a shared folder, and sign URLs for them, for clients without credentials."""

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
    """Return a page of a folder's files; raises NotFound, or UnsupportedOperation without URL access."""
    folder = _open_by_url(sharing, caller, kind, name)
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
    files = [file for file in page.objects if is_name(file.name)]
    folders = [folder_name for folder_name in page.folders if is_name(folder_name[:-1])]
    markers = sum(file.name == "" or (file.name.endswith("/") and not file.size) for file in page.objects)
    body: dict[str, Any] = {"items": [_file_to_json(file) for file in files]}
    if request.delimiter:
        body["folders"] = folders
    if omitted := len(page.objects) - len(files) - markers + len(page.folders) - len(folders):
        body["leftOut"] = omitted
    if page.next:
        body["nextPageToken"] = seal_list_token(sharing.signer, listing, page.next, now=now)
    return json_bodies.encode(body)


def sign_files(sharing: Sharing, caller: Caller, kind: AssetKind, name: AssetName, request: UrlsRequest) -> bytes:
    """Return signed URLs of the requested files, and the names of files that do not exist.

    The file sizes count towards the recipient's limit of bytes. Raises the same errors as `list_files`.
    """
    folder = _open_by_url(sharing, caller, kind, name)
    reader = sharing.sessions.file_reader(folder.storage)
    start = folder.location.key_prefix
    # S3 responds to HEAD requests for longer keys with an error that a failing proxy could also return.
    possible = [name for name in request.names if len(f"{start}{name}".encode()) <= MAX_KEY_BYTES]
    files = [file for file in head_objects(reader, folder.storage, folder.location, possible) if file is not None]
    now = datetime.fromtimestamp(int(sharing.clock()), UTC)
    keys = sharing.sessions.credentials(caller.recipient_id, folder.storage)
    signer = UrlSigner(keys, folder.storage, folder.location, ttl=sharing.url_ttl, now=now)
    session = sharing.sessions.name_of(caller.recipient_id, folder.storage)
    caller.audit.add_signing(session, now.timestamp(), signer.expires_at_ms / 1000)
    caller.audit.metrics.add(len(files), sum(file.size for file in files))
    existing = {file.name for file in files}
    missing = [name for name in request.names if name not in existing]
    return json_bodies.encode({
        "items": [{**_file_to_json(file), "url": signer.url(file.name)} for file in files],
        **({"missing": missing} if missing else {}),
        "expirationTime": signer.expires_at_ms,
    })  # fmt: skip


def _open_by_url(sharing: Sharing, caller: Caller, kind: AssetKind, name: AssetName) -> SharedFolder:
    folder = open_folder(sharing, caller, kind, name)
    folder.require_url_access()
    return folder


def _file_to_json(file: FolderObject) -> dict[str, Any]:
    return {"name": file.name, "size": file.size, "lastModified": file.modified_ms, "etag": file.etag}
