"""RFC 6455 without I/O, the client's side: the handshake, frames that are sent, frames that came."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Callable, Dict, List, Mapping, Optional, Tuple

from .errors import ProtocolError

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
CONTINUATION = 0
MESSAGE_MAX = 16 * 1024 * 1024
PROTOCOL = "sandpool.v1"

Message = Tuple[int, bytes]


class Handshake:
    def __init__(self) -> None:
        self.key = base64.b64encode(os.urandom(16))

    def headers(self) -> Dict[str, str]:
        return {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": self.key.decode(), "Sec-WebSocket-Protocol": PROTOCOL}

    def check(self, headers: Mapping[str, str]) -> None:
        """The headers of the 101, with names in lower case."""
        expected = base64.b64encode(hashlib.sha1(self.key + GUID).digest()).decode()
        if (headers.get("upgrade", "").lower() != "websocket"
                or headers.get("sec-websocket-accept") != expected
                or headers.get("sec-websocket-protocol", PROTOCOL) != PROTOCOL):
            raise ProtocolError("protocol", "the answer is no WebSocket")


def _xor(data: bytes, mask: bytes) -> bytes:
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


def encode(opcode: int, data: bytes, random: Callable[[int], bytes] = os.urandom) -> bytes:
    """One message in one frame, masked as clients must."""
    size = len(data)
    head = bytearray((0x80 | opcode,))
    if size < 126:
        head.append(0x80 | size)
    elif size < 65536:
        head.append(0x80 | 126)
        head += size.to_bytes(2, "big")
    else:
        head.append(0x80 | 127)
        head += size.to_bytes(8, "big")
    mask = random(4)
    return bytes(head) + mask + _xor(data, mask)


def encode_close(code: int = 1000) -> bytes:
    return encode(CLOSE, code.to_bytes(2, "big"))


class Decoder:
    """Messages out of the bytes of the server: fragments joined, control frames between them."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._opcode = 0  # of the message whose fragments come
        self._parts = bytearray()

    def feed(self, data: bytes) -> List[Message]:
        self._data += data
        messages: List[Message] = []
        while True:
            frame = self._frame()
            if frame is None:
                return messages
            self._join(*frame, messages)

    def _frame(self) -> Optional[Tuple[int, bool, bytes]]:
        data = self._data
        if len(data) < 2:
            return None
        opcode, is_last, size, at = data[0] & 15, bool(data[0] & 0x80), data[1] & 127, 2
        if data[0] & 0x70 or data[1] & 0x80:
            raise ProtocolError("protocol", "a frame with reserved bits, or masked by the server")
        if opcode >= 8 and (size > 125 or not is_last):
            raise ProtocolError("protocol", "a control frame that is long or in pieces")
        extra = {126: 2, 127: 8}.get(size, 0)
        if extra:
            if len(data) < 2 + extra:
                return None
            size, at = int.from_bytes(data[2:2 + extra], "big"), 2 + extra
        if size + len(self._parts) > MESSAGE_MAX:
            raise ProtocolError("protocol", "a message that is too long")
        if len(data) < at + size:
            return None
        payload = bytes(data[at:at + size])
        del data[:at + size]
        return opcode, is_last, payload

    def _join(self, opcode: int, is_last: bool, payload: bytes, messages: List[Message]) -> None:
        if opcode in (CLOSE, PING, PONG):
            messages.append((opcode, payload))
            return
        if opcode not in (CONTINUATION, TEXT, BINARY) or (opcode == CONTINUATION) != bool(self._opcode):
            raise ProtocolError("protocol", "a frame out of place")
        if opcode != CONTINUATION:
            self._opcode = opcode
        self._parts += payload
        if is_last:
            messages.append((self._opcode, bytes(self._parts)))
            self._opcode = 0
            self._parts.clear()
