"""What the tests of exported snapshots share: a daemon with boxes, the file of a snapshot in memory, and such files made by
hand, good ones and bad ones."""

import hashlib
import json
import struct
import subprocess
import tarfile

from fixtures import BIN, UnixConnection
from test_boxes_snapshots import SnapshotCase

MAGIC = 0x184D2A50


def compress(data):
    return subprocess.run(["zstd", "-q", "-1", "-c"], input=data, stdout=subprocess.PIPE, check=True, timeout=60).stdout


def unpack(data):
    """The head of a file, and its archive."""
    magic, length = struct.unpack("<II", data[:8])
    assert magic == MAGIC, hex(magic)
    archive = subprocess.run(["zstd", "-q", "-d", "-c"], input=data, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    return json.loads(data[8:8 + length]), archive


def entry(name, kind=tarfile.REGTYPE, data=b"", link="", records=None, **fields):
    """One entry of an archive, as bytes."""
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    info.size = len(data)
    info.mtime = 1700000000
    info.pax_headers = records or {}
    for key, value in fields.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.PAX_FORMAT) + data + bytes(-len(data) % 512)


TOP = entry("files", tarfile.DIRTYPE, mode=0o755)


def bundle(head, entries, digest=None, end=True, frame=None):
    """A whole file of these entries, with the right digest unless another is given."""
    text = json.dumps(head).encode() if isinstance(head, dict) else head
    archive = b"".join(entries)
    header = entry("digest", data=b"x" * 71, mode=0o444)[:512]
    value = digest or "sha256:" + hashlib.sha256(text + archive + header).hexdigest()
    if end:
        archive += header + value.encode() + bytes(512 - 71) + bytes(1024)
    return (frame or struct.pack("<II", MAGIC, len(text))) + text + compress(archive)


class BundleCase(SnapshotCase):
    def exported(self, snapshot, query="", client=None):
        connection = UnixConnection(self.server.socket, 60)
        try:
            connection.request("GET", f"/v1/snapshots/{snapshot['snapshot_id']}/export{query}")
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def file_of(self, snapshot):
        status, data = self.exported(snapshot)
        self.assertEqual(status, 200, data[:200])
        return data

    def send(self, data, query=""):
        """The status and the answer of an import. `data`: bytes, or pieces."""
        connection = UnixConnection(self.server.socket, 60)
        try:
            pieces = data if not isinstance(data, bytes) else (data[i:i + 65536] for i in range(0, len(data), 65536))
            try:
                connection.request("POST", "/v1/snapshots/import" + query, pieces, encode_chunked=True,
                                   headers={"Transfer-Encoding": "chunked"})
            except (BrokenPipeError, ConnectionResetError):
                pass  # it was answered before all was sent
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def imported(self, data, query=""):
        status, answer = self.send(data, query)
        self.assertEqual(status, 200, answer)
        return answer

    def cli(self, *args, **kw):
        return subprocess.run([BIN / "sandpool", "--socket", str(self.server.socket), *args], check=False, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
