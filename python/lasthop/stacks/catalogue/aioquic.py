"""An endpoint of the QUIC interop runner on aioquic: HTTP/0.9 or HTTP/3 over QUIC."""
# pyright: basic, reportMissingImports=false

import asyncio
import os
import signal
import ssl
import sys
from pathlib import Path
from urllib.parse import urlsplit

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h0.connection import H0_ALPN, H0Connection
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated
from aioquic.quic.logger import QuicFileLogger

PROTOCOLS = {"handshake": H0_ALPN, "transfer": H0_ALPN, "http3": H3_ALPN}
NETWORK_ERROR = 1


class Endpoint(QuicConnectionProtocol):
    """Either end; `http` exists once the application protocol is known."""

    def __init__(self, *arguments, **keywords) -> None:
        """Begin without requests."""
        super().__init__(*arguments, **keywords)
        self.http = None
        self.files, self.waiting = {}, {}

    def quic_event_received(self, event) -> None:
        """Answer requests, and store responses."""
        if isinstance(event, ProtocolNegotiated):
            kind = H3Connection if event.alpn_protocol in H3_ALPN else H0Connection
            self.http = kind(self._quic)
        if isinstance(event, ConnectionTerminated):
            for done in self.waiting.values():
                if not done.done():
                    done.set_exception(ConnectionError(event.reason_phrase or f"error {event.error_code}"))
        if self.http is not None:
            for own in self.http.handle_event(event):
                self.http_event_received(own)

    def http_event_received(self, event) -> None:
        """Handle a part of a request or of a response."""
        stream = event.stream_id
        if stream in self.files:
            if isinstance(event, DataReceived):
                self.files[stream].write(event.data)
            if event.stream_ended:
                self.files.pop(stream).close()
                self.waiting[stream].set_result(None)
        elif isinstance(event, HeadersReceived):
            headers = dict(event.headers)
            content = Path("/www", Path(headers[b":path"].decode()).name).read_bytes()
            length = str(len(content)).encode()
            self.http.send_headers(stream, [(b":status", b"200"), (b"content-length", length)])
            self.http.send_data(stream, content, end_stream=True)
            self.transmit()

    async def fetch(self, url: str) -> None:
        """Request a file, and wait for its end."""
        parts = urlsplit(url)
        stream = self._quic.get_next_available_stream_id()
        self.files[stream] = Path("/downloads", Path(parts.path).name).open("wb")
        self.waiting[stream] = asyncio.get_running_loop().create_future()
        headers = {":method": "GET", ":scheme": "https", ":authority": parts.netloc, ":path": parts.path}
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.http.send_headers(stream, encoded, end_stream=True)
        self.transmit()
        await self.waiting[stream]


async def serve_files(configuration: QuicConfiguration) -> None:
    """Serve until the end of the run."""
    configuration.load_cert_chain("/certs/cert.pem", "/certs/priv.key")
    await serve("::", 443, configuration=configuration, create_protocol=Endpoint)
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    await end.wait()
    # aioquic writes the log of a connection when it ends.
    for trace in list(configuration.quic_logger._traces) if configuration.quic_logger else []:
        configuration.quic_logger.end_trace(trace)


async def download(configuration: QuicConfiguration) -> None:
    """Request all files at once, on one connection."""
    urls = os.environ["REQUESTS"].split()
    place = urlsplit(urls[0])
    made = connect(place.hostname, place.port, configuration=configuration, create_protocol=Endpoint)
    async with made as connection:
        await asyncio.gather(*(connection.fetch(url) for url in urls))


def main() -> None:
    """Run the end that the environment names."""
    alpn = PROTOCOLS.get(os.environ["TESTCASE"])
    if alpn is None:
        sys.exit(127)
    is_client = os.environ["ROLE"] == "client"
    configuration = QuicConfiguration(is_client=is_client, alpn_protocols=alpn)
    configuration.congestion_control_algorithm = os.environ.get("QUIC_CONTROL", "reno")
    configuration.max_data, configuration.max_stream_data = 1 << 26, 1 << 26
    if os.environ["QLOGDIR"]:
        configuration.quic_logger = QuicFileLogger(os.environ["QLOGDIR"])
    with Path(os.environ["SSLKEYLOGFILE"]).open("a") as keys:
        configuration.secrets_log_file = keys
        if is_client:
            configuration.load_verify_locations("/certs/ca.pem")
            configuration.verify_mode = ssl.CERT_REQUIRED
        try:
            asyncio.run(download(configuration) if is_client else serve_files(configuration))
        except ConnectionError as error:
            print(error, file=sys.stderr)
            sys.exit(NETWORK_ERROR)


main()
