"""Read forms, and save their files on this machine."""

import shutil
from pathlib import Path
from tempfile import mkdtemp

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request


async def read_form(request: Request, folder: str) -> dict[str, str] | None:
    """Return the fields of a form; its file is saved in `folder`, and the field has the path.

    Returns None if the form is incomplete, or has a file without a folder for it.
    """
    try:
        async with request.form(max_files=1 if folder else 0, max_fields=30) as form:
            fields = {name: value for name, value in form.items() if isinstance(value, str)}
            if isinstance(upload := form.get("file"), UploadFile):
                path = Path(mkdtemp(dir=folder), Path((upload.filename or "").replace("\\", "/")).name or "file")
                with path.open("wb") as file:  # noqa: ASYNC230 -- one operator waits for it
                    shutil.copyfileobj(upload.file, file)
                fields["file"] = str(path)
            return fields
    except (ClientDisconnect, MultiPartException):
        return None
