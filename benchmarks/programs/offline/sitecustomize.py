"""Answers downloads of the programs from a folder, $SMEX_DOWNLOADS, by the names of the files.

Python imports this at its start from a folder of its path. What the folder does not have is looked
for where the program looks for it.
"""

import email
import os
import pathlib
import urllib.parse
import urllib.request
import urllib.response


class _Folder(urllib.request.BaseHandler):
    handler_order = 100  # before those of the network

    def default_open(self, request: urllib.request.Request) -> urllib.response.addinfourl | None:
        name = pathlib.PurePosixPath(urllib.parse.urlparse(request.full_url).path).name
        path = pathlib.Path(os.environ["SMEX_DOWNLOADS"]) / name
        if not name or not path.is_file():
            return None
        headers = email.message_from_string(f"Content-Length: {path.stat().st_size}\n\n")
        answer = urllib.response.addinfourl(path.open("rb"), headers, request.full_url, 200)
        answer.msg = "OK"
        return answer


if "SMEX_DOWNLOADS" in os.environ:
    urllib.request.install_opener(urllib.request.build_opener(_Folder))
