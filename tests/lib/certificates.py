"""Certificates for the tests of TLS, by the openssl program."""

import subprocess


def run(*args, data=None):
    done = subprocess.run(args, input=data, capture_output=True, timeout=60, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{args}: {done.stderr.decode(errors='replace')[-1000:]}")
    return done.stdout


class Authority:
    """Signs certificates in a directory."""

    def __init__(self, directory, name="ca"):
        self.directory = directory
        self.cert = directory / f"{name}.pem"
        self.key = directory / f"{name}.key"
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.cert)

    def sign(self, name, file, days=2, kind="ec"):
        """name.pem and name.key for 127.0.0.1."""
        cert, key = self.directory / f"{file}.pem", self.directory / f"{file}.key"
        how = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "ec" else ["rsa:2048"]
        request = run("openssl", "req", "-newkey", *how, "-nodes", "-subj", f"/CN={name}", "-keyout", key)
        ext = self.directory / "ext"
        ext.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        run("openssl", "x509", "-req", "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-days", str(days),
            "-extfile", ext, "-out", cert, data=request)
        return cert, key
