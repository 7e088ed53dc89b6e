"""Serves parts over QUIC, with a certificate that it creates at the start; needs aioquic."""
# pyright: basic, reportMissingImports=false

import asyncio
import datetime

from aioquic.asyncio import serve
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def configuration() -> QuicConfiguration:
    """Create a key and a certificate for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    today = datetime.datetime(2000, 1, 1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(today)
    builder = builder.not_valid_after(datetime.datetime(2100, 1, 1))
    made = QuicConfiguration(is_client=False, alpn_protocols=["parts"])
    made.certificate, made.private_key = builder.sign(key, hashes.SHA256()), key
    return made


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a part once the request is complete."""
    await reader.read()
    writer.write(bytes(125_000))
    writer.write_eof()


def on_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Start a response, and keep a reference to its task."""
    task = asyncio.get_running_loop().create_task(answer(reader, writer))
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def main() -> None:
    """Serve forever."""
    await serve("::", 4433, configuration=configuration(), stream_handler=on_stream)
    await asyncio.Future()


tasks: set[asyncio.Task[None]] = set()
asyncio.run(main())
