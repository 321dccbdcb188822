"""The report of unfinished runs, served to a browser on this machine."""

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
    """The page of unfinished runs, updated as they go on."""

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
        """Update the page if a run has new entries; tell whether it changed."""
        try:
            version = self._state()
            if version == self.version:
                return False
            self.version, self.html = version, make_page([self._collect()], version)
        # A run may have no evaluation yet, or its directory may go away: the server
        # must outlive both.
        except (PersonaeError, OSError) as error:
            # The message may quote a file of a stranger.
            reason = html.escape(str(error))
            if reason == self.version:
                return False
            self.version, self.html = reason, WAITING.format(reason=reason)
        return True

    def _state(self) -> str:
        # Sizes are a cheap version: a new evaluation makes the metrics longer.
        sizes = []
        for run in find_runs(self._directories):
            for path in (run / "metrics.jsonl", run / "run.json"):
                sizes.append(path.stat().st_size if path.exists() else 0)
        return "-".join(map(str, sizes))


def make_server(live: LivePage, port: int) -> ThreadingHTTPServer:
    """Return a server of the page for this machine only.

    Args:
        live: The page to serve.
        port: The port to listen on; 0 for any that is free.
    """
    require(0 <= port <= 65535, f"a port lies in 0..65535, not {port}")

    # A class in a function, because the standard library makes the handlers itself and
    # has no place for an argument.
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
            # The browser may close the connection at any time.
            with suppress(ConnectionError):
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: a page sends a request every other second."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def watch(
    live: LivePage, server: ThreadingHTTPServer, stop: threading.Event, pause: float = 2
) -> None:
    """Serve the page and refresh it until `stop` is set.

    Args:
        live: The page to refresh.
        server: The server of the page.
        stop: The event that ends the serving.
        pause: Seconds between two refreshes.
    """
    # Pages are made in this thread and served in another: a reader never waits for one.
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        while not stop.wait(pause):
            live.refresh()
    finally:
        server.shutdown()
        server.server_close()
