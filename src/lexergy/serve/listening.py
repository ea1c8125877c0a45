"""Where a server listens, and how that is told."""

import socket

from lexergy.errors import LexergyError

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def listen(host: str, port: int) -> socket.socket:
    """A socket before anything is loaded, so that an address in use is told at once."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise LexergyError(
            f"the address {host}:{port} cannot be listened on ({error.strerror or error}); choose another `--port` or "
            "`--host`."
        ) from error


def address_of(host: str, listening: socket.socket) -> str:
    """As a browser takes it."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}/"
