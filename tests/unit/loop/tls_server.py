#!/usr/bin/env python3
"""A TLS server for test_httpc_tls: tls_server.py DIRECTORY.

Makes authorities and certificates in the directory, then prints two ports: on the first a client may show a
certificate, on the second it must. Every answer to GET says who the client is and which name it asked for;
/flow/N sends N MiB of the pattern of stream_server.h; a POST is answered with the length of its body.
Ends with its parent, whose end closes its input.
"""
import os
import socket
import ssl
import subprocess
import sys
import threading

PATTERN = bytes(i % 251 for i in range(251)) * 4200  # a little more than a MiB


def openssl(*args):
    subprocess.run(("openssl",) + args, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_key(name, *args):
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-subj", f"/CN={name}", *args)


def make_authority(name):
    make_key(name, "-x509", "-days", "2", "-out", f"{name}.pem")


def make_certificate(name, authority, names=None):
    make_key(name, "-out", f"{name}.csr")
    with open(f"{name}.ext", "w", encoding="ascii") as ext:
        ext.write(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
    openssl("x509", "-req", "-days", "2", "-in", f"{name}.csr", "-CA", f"{authority}.pem",
            "-CAkey", f"{authority}.key", "-CAcreateserial", "-extfile", f"{name}.ext", "-out", f"{name}.pem")


def make_all():
    make_authority("authority")
    make_authority("stranger")
    make_certificate("server", "authority", "IP:127.0.0.1,DNS:one.test")
    make_certificate("client", "authority")
    make_certificate("forged", "stranger")
    openssl("rsa", "-aes128", "-passout", "pass:secret", "-in", "client.key", "-out", "locked.key")


def flow(stream, mib):
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (mib << 20))
    for sent in range(0, mib << 20, 1 << 20):
        stream.sendall(PATTERN[sent % 251:][:1 << 20])


def read_body(stream, head, rest):
    """The body is announced by its length."""
    size = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    got = len(rest)
    while got < size:
        piece = stream.recv(65536)
        if not piece:
            break
        got += len(piece)
    return got


def serve(stream):
    rest = b""
    while True:
        while b"\r\n\r\n" not in rest:
            piece = stream.recv(65536)
            if not piece:
                return
            rest += piece
        head, rest = rest.split(b"\r\n\r\n", 1)
        path = head.split()[1].decode()
        if path.startswith("/flow/"):
            flow(stream, int(path[6:]))
            continue
        if head.startswith(b"POST"):
            text = b"%d" % read_body(stream, head, rest)
            rest = b""
        else:
            subject = (stream.getpeercert() or {}).get("subject", ((("", "nobody"),),))
            text = f"{subject[0][0][1]} asks for {stream.context.asked.get(id(stream), '-')}".encode()
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))


def drain(stream):
    """Unread bytes would turn the close into a reset, which may overtake what was said last."""
    end = socket.socket(fileno=os.dup(stream.fileno()))
    try:
        end.shutdown(socket.SHUT_WR)
        while end.recv(65536):
            pass
    except OSError:
        pass
    end.close()


def handle(context, raw):
    with context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False) as stream:
        try:
            stream.do_handshake()
            serve(stream)
        except OSError:  # the peer left, or is refused
            drain(stream)


def accept(listener, context):
    while True:
        raw, _ = listener.accept()
        threading.Thread(target=handle, args=(context, raw), daemon=True).start()


def start(verify):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("server.pem", "server.key")
    context.load_verify_locations("authority.pem")
    context.verify_mode = verify
    context.asked = {}
    context.sni_callback = lambda stream, name, _: context.asked.__setitem__(id(stream), name)
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, args=(listener, context), daemon=True).start()
    return listener.getsockname()[1]


def main():
    os.chdir(sys.argv[1])
    make_all()
    print(start(ssl.CERT_OPTIONAL), start(ssl.CERT_REQUIRED), flush=True)
    sys.stdin.read()


main()
