"""Save the file of a form on this machine."""

import shutil
from pathlib import Path
from tempfile import mkdtemp

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request


async def read_upload(request: Request, form_token: str, folder: str) -> dict[str, str] | None:
    """Read a multipart form, save its field `file` in `folder`, and return the fields with the file's path.

    Saves nothing if the form lacks the session's form token. Returns None if the form is incomplete.
    """
    try:
        async with request.form(max_files=1, max_fields=10) as form:
            fields = {name: value for name, value in form.items() if isinstance(value, str)}
            if fields.get("token") != form_token:
                return fields
            if not isinstance(upload := form.get("file"), UploadFile):
                return None
            path = Path(mkdtemp(dir=folder), Path((upload.filename or "").replace("\\", "/")).name or "file")
            with path.open("wb") as file:  # noqa: ASYNC230 -- one operator waits for it
                shutil.copyfileobj(upload.file, file)
            return {**fields, "file": str(path)}
    except (ClientDisconnect, MultiPartException):
        return None
