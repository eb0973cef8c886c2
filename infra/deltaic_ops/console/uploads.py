"""Save the file of a form on this machine, while the browser sends it."""

import re
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from starlette.requests import ClientDisconnect, Request

_FIELD: Final = re.compile(rb'name="(\w+)"\r\n\r\n(.*?)\r\n--', re.DOTALL)
_FILE: Final = re.compile(rb'name="file"; filename="([^"\r\n]*)"(?:\r\n[^\r\n]+)*\r\n\r\n')
_MAX_HEAD_BYTES: Final = 64 << 10


async def read_upload(request: Request, form_token: str, folder: str) -> dict[str, str] | None:
    """Read a multipart form, save its last field `file` in `folder`, and return the fields with the file's path.

    Saves nothing if the fields before the file lack the session's form token. Returns None if the form is incomplete.
    """
    chunks, head = request.stream(), b""
    start: re.Match[bytes] | None = None
    async for chunk in chunks:
        head += chunk
        if (start := _FILE.search(head)) or len(head) > _MAX_HEAD_BYTES:
            break
    if start is None:
        return None
    fields = {name.decode(): value.decode("utf-8", "replace") for name, value in _FIELD.findall(head[: start.start()])}
    if fields.get("token") != form_token:
        return fields
    path = Path(mkdtemp(dir=folder), Path(start[1].decode("utf-8", "replace").replace("\\", "/")).name or "file")
    end = f"\r\n--{request.headers['content-type'].partition('boundary=')[2]}--\r\n".encode()
    with path.open("wb+") as file:  # noqa: ASYNC230 -- one operator waits for it, and each write is short
        file.write(head[start.end() :])
        with suppress(ClientDisconnect):
            async for chunk in chunks:
                file.write(chunk)
        size = file.seek(max(file.tell() - len(end), 0))
        is_complete = file.read() == end
        file.truncate(size)
    return {**fields, "file": str(path)} if is_complete else None
