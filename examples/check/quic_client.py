"""A client under test: it downloads a megabyte in parts over QUIC; needs aioquic."""
# pyright: basic, reportMissingImports=false

import asyncio
import ssl

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.quic.configuration import QuicConfiguration

PARTS, PART = 8, 125_000


async def fetch(connection: QuicConnectionProtocol) -> None:
    """Request a part on its own stream, and read it to its end."""
    reader, writer = await connection.create_stream()
    writer.write(b"part\n")
    writer.write_eof()
    if len(await reader.read()) != PART:
        raise SystemExit("a part is not whole")


async def download() -> None:
    """Request all parts at once."""
    configuration = QuicConfiguration(alpn_protocols=["parts"], verify_mode=ssl.CERT_NONE)
    async with connect("server", 4433, configuration=configuration) as connection:
        await asyncio.gather(*(fetch(connection) for _ in range(PARTS)))


asyncio.run(download())
