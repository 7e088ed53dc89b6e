"""Accepts uploads by PUT, and responds when they are complete."""

import http.server


class Parts(http.server.BaseHTTPRequestHandler):
    """A request."""

    def do_PUT(self) -> None:
        """Read a part to its end."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as the base class has it
        """Print nothing."""


http.server.ThreadingHTTPServer(("", 80), Parts).serve_forever()
