"""The report of runs that are still going, served to a browser on this machine."""

import html
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from personae.errors import PersonaeError, require
from personae.report.data.collection import collect, find_runs
from personae.report.render.write import make_page

WAITING = """<!doctype html>
<meta charset="utf-8"><meta http-equiv="refresh" content="2">
<title>waiting</title><p>{reason}</p>"""


class LivePage:
    """The page as the runs are now."""

    def __init__(
        self,
        directories: Sequence[Path],
        reference: str | None = None,
        despite: Sequence[str] = (),
    ):
        self._directories = directories
        self._collect = partial(collect, directories, reference, despite)
        self.version, self.html = "", ""
        self.refresh()

    def refresh(self) -> bool:
        """Make the page anew if anything was added to a run; tell whether it was."""
        try:
            version = self._state()
            if version == self.version:
                return False
            self.version, self.html = version, make_page([self._collect()], version)
        except (PersonaeError, OSError) as error:  # nothing there yet, or taken away
            reason = html.escape(str(error))
            if reason == self.version:
                return False
            self.version, self.html = reason, WAITING.format(reason=reason)
        return True

    def _state(self) -> str:
        sizes = []
        for run in find_runs(self._directories):
            for path in (run / "metrics.jsonl", run / "run.json"):
                sizes.append(path.stat().st_size if path.exists() else 0)
        return "-".join(map(str, sizes))


def make_server(live: LivePage, port: int) -> ThreadingHTTPServer:
    """Return a server of the page for this machine only."""
    require(0 <= port <= 65535, f"a port lies in 0..65535, not {port}")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages = {"/": live.html, "/version": live.version}
            if self.path not in pages:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = pages[self.path].encode()
            kind = "text/html" if self.path == "/" else "text/plain"
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # a reader who has gone away
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: a page asks every other second."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def watch(
    live: LivePage, server: ThreadingHTTPServer, stop: threading.Event, pause: float = 2
) -> None:
    """Serve, and look for news, until told to stop."""
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        while not stop.wait(pause):
            live.refresh()
    finally:
        server.shutdown()
        server.server_close()
