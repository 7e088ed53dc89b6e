"""The address of `--listen`: where the server listens, and under which names a class may reach it."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from lasthop.common.errors import InputError

_PORT = 8000
_ANY = "0.0.0.0"
_NAME = re.compile(r"(?:[a-z0-9][a-z0-9-]*\.)*[a-z][a-z0-9-]*\.?")
_NOWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses for documentation (RFC 5737, RFC 3849)."""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _host_of(header: str) -> str | None:
    """Return the host of `HOST[:PORT]`; `None` if the text has another form."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return None
    host = parts.hostname or ""
    return (
        host
        if "@" not in header and parts.netloc == header and (_NAME.fullmatch(host) or _is_address(host))
        else None
    )


@dataclass(frozen=True, slots=True)
class Listen:
    """A host, which is a name or an address, and a port."""

    host: str
    port: int = _PORT

    @classmethod
    def parse(cls, text: str) -> Listen:
        """Parse `HOST[:PORT]`. Raises `InputError` if the text has another form."""
        host = _host_of(text)
        if not host:
            raise InputError(
                f"--listen {text}: write a host and a port, such as 0.0.0.0:{_PORT}, [::]:{_PORT} or "
                f"lab.example.org:{_PORT}."
            )
        port = urlsplit(f"//{text}").port
        return cls(host, _PORT if port is None else port)

    def open(self) -> socket.socket:
        """Return a listening socket. A name may be a router's, so all addresses of the machine are used."""
        address = self.host if _is_address(self.host) else _ANY
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            return socket.create_server((address, self.port), family=family)
        except OSError as error:
            raise InputError(
                f"--listen {self.host}:{self.port}: cannot listen there: {error.strerror}. Choose another "
                "port, or an address of this machine."
            ) from error

    def name(self, listening: socket.socket) -> str:
        """Return host and port for the address of the class."""
        host, port = self.host, listening.getsockname()[1]
        if _is_address(host) and ipaddress.ip_address(host).is_unspecified:
            host = _own_address(listening.family)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def accepts(self, header: str) -> bool:
        """Return whether a request with this `Host` header may be from a page of the class.

        A site that makes its own name resolve to this machine (DNS rebinding) sends its name. So the only
        names are that of `--listen`, and `localhost`, which browsers do not resolve by DNS. Any address is
        accepted, because a page at an address has no name that could be rebound, and because the server does
        not know its address before a router or tunnel. For the same reason the port does not matter.
        """
        host = _host_of(header)
        return host is not None and (host in (self.host, "localhost") or _is_address(host))


def _own_address(family: int) -> str:
    """Return this machine's address for other networks; without one, the loopback address."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_NOWHERE[socket.AddressFamily(family)], 9))  # sends nothing
        except OSError:
            return "127.0.0.1" if family == socket.AF_INET else "::1"
        return str(probe.getsockname()[0])
