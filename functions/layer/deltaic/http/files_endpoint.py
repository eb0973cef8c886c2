"""Endpoint that lists and signs the files of volumes, skills and model versions."""

from deltaic import storage
from deltaic.http.asset_endpoints import asset_kind, asset_name
from deltaic.http.request import Request
from deltaic.http.response import Response, json_response
from deltaic.protocol.files_request import FilesRequest, UrlsRequest
from deltaic.sharing.folders import folder_files
from deltaic.sharing.runtime import connect_sessions, sharing
from deltaic.snapstart import call_after_restore, load_before_snapshot

load_before_snapshot("botocore.config", "botocore.session", *storage.BEFORE_SNAPSHOT)
call_after_restore(connect_sessions)


def get_files(request: Request) -> Response:
    """GET .../files: a page of file names. POST .../files: signed URLs for the requested file names."""
    kind = asset_kind(request, "list_{}_files")
    name = asset_name(request, kind)
    if request.method == "POST":
        urls_request = UrlsRequest.parse(request.body)
        return json_response(folder_files.sign_files(sharing(), request.caller, kind, name, urls_request))
    page = FilesRequest.parse(request.query)
    return json_response(folder_files.list_files(sharing(), request.caller, kind, name, page))
