"""Certificates of servers, derived from a seed: ECDSA with P-256 and deterministic signatures (RFC 6979).

The keys protect nothing, but a seed has to give packets of the same sizes. QUIC implementations have ECDSA
with P-256 in common, but not Ed25519, whose signatures are always deterministic.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from lasthop.common.extras import STACKS, extra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_VALID = datetime(2020, 1, 1, tzinfo=UTC), datetime(2049, 12, 31, tzinfo=UTC)
"""The date of a guest, and that of this machine, lie between them."""
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of the group of P-256 (SEC 2, section 2.4.2)."""


class Identity(NamedTuple):
    """The files of a server and its clients, in PEM."""

    chain: bytes
    """The server's certificate, followed by that of its authority."""
    key: bytes
    authority: bytes


def identity(seed: int, names: list[str]) -> Identity:
    """Return the certificate of a server with these host names, signed by an authority of the same seed."""
    with extra(STACKS, "A transfer"):
        from cryptography import x509
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    authority, own = (_key(f"{seed}/{owner}") for owner in ("authority", "server"))
    issuer = named(f"lasthop {seed}")
    base = x509.CertificateBuilder(issuer, not_valid_before=_VALID[0], not_valid_after=_VALID[1])
    root = base.subject_name(issuer).public_key(authority.public_key()).serial_number(1)
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    leaf = base.subject_name(named(names[0])).public_key(own.public_key()).serial_number(2)
    leaf = leaf.add_extension(x509.SubjectAlternativeName(map(x509.DNSName, names)), critical=False)
    signed, ca = (
        builder.sign(authority, SHA256(), ecdsa_deterministic=True).public_bytes(Encoding.PEM)
        for builder in (leaf, root)
    )
    key = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Identity(signed + ca, key, ca)


def _key(seed: str) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key

    number = int.from_bytes(hashlib.sha512(seed.encode()).digest())
    return derive_private_key(1 + number % (_ORDER - 1), SECP256R1())
