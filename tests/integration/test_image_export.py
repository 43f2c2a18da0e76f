"""Snapshots as container images: engines and tools that are not ours read them, and what they run has what the box had."""

import hashlib
import io
import json
import os
import socket
import subprocess
import tarfile

from bundle_case import BundleCase
from fixtures import BIN, main

import engine as engines

# What an image keeps of files, and what was deleted of the base; prepared by root of the box.
PREPARE = """
cd /workspace && echo text > file && ln file other && ln -s file to && chmod 640 file && chown 1000:7 file
cp /bin/busybox suid && chmod 4755 suid && mkfifo pipe && mkdir 'a b' && echo ü > 'a b/ü'
truncate -s 3M holes && printf end >> holes
rm /etc/base && rm -rf /srv/opaque && mkdir /srv/opaque && echo new > /srv/opaque/new && chmod 1775 /srv/opaque
"""

# Printed in the box, and then in a container.
LOOK = """
cd /workspace && stat -c '%n %a %u %g %h %F' file other to suid pipe 'a b' 'a b/ü' holes /srv/opaque /srv/opaque/new /etc/kept
cat file 'a b/ü' /srv/opaque/new /etc/kept; md5sum holes; ls /srv/opaque; ls /etc/base 2>&1 | wc -l; ls -d /srv/*; id -u; pwd; echo $HOME
"""


def blobs(tar):
    return {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}


class ImageCase(BundleCase):
    profiles = {"default": {"warm": {"min": 0, "max": 0}, "env": {"HIDDEN": "of the profile"}}}

    @classmethod
    def make_config(cls):
        made = super().make_config()
        root = cls.home / "small"
        with tarfile.open(fileobj=io.BytesIO(engines.image_tar())) as tar:
            tar.extractall(root)
        for name in ("rm", "ln", "chmod", "chown", "cp", "mkfifo", "mkdir", "truncate", "stat", "md5sum", "wc", "printf", "echo"):
            (root / "bin" / name).symlink_to("busybox")
        for name in ("srv/opaque", "srv/whole", "proc", "dev", "sys", "var/tmp", "usr"):
            (root / name).mkdir(parents=True)
        (root / "srv/opaque/old").write_text("old\n")
        (root / "etc/base").write_text("base\n")
        (root / "etc/kept").write_text("kept\n")
        os.mknod(root / "dev/null", 0o600 | 0o020000, os.makedev(1, 3))
        made["profiles"]["small"] = {**made["profiles"]["default"], "rootfs": str(root)}
        made["profiles"]["again"] = {**made["profiles"]["default"], "image": f"docker-archive:{cls.home}/image.tar"}
        return made

    def made(self, name):
        """What a box looks like, the snapshot of it, and that as an image."""
        box = self.acquire(name, profile="small", envs={"SECRET": "of the lease"})
        box.sh(["sh", "-c", PREPARE], user="root")
        shown = box.sh(["sh", "-c", LOOK])
        snapshot = self.take(box, name=name, metadata={"who": "knows"})
        self.pool.delete(f"/v1/sandboxes/{box.id}")
        return shown, snapshot, box

    def image_of(self, snapshot):
        status, data = self.exported(snapshot, "?format=oci")
        self.assertEqual(status, 200, data[:300])
        return data


class Images(ImageCase):
    def test_everybody_reads_it(self):
        shown, snapshot, _ = self.made("everybody")
        data = self.image_of(snapshot)
        file = self.home / "image.tar"
        file.write_bytes(data)
        with self.subTest("skopeo"):
            done = subprocess.run(["skopeo", "inspect", "--config", f"oci-archive:{file}"], check=True, timeout=60,
                                  stdout=subprocess.PIPE)
            self.assertEqual(json.loads(done.stdout)["config"]["WorkingDir"], "/workspace")
        with self.subTest("umoci"):
            layout = self.home / "layout"
            with tarfile.open(file) as tar:
                tar.extractall(layout)
            subprocess.run(["umoci", "unpack", "--image", f"{layout}:{snapshot['snapshot_id']}", self.home / "bundle"],
                           check=True, timeout=60, stdout=subprocess.DEVNULL)
            root = self.home / "bundle/rootfs"
            self.assertEqual((root / "srv/opaque/new").read_text(), "new\n")
            self.assertFalse((root / "srv/opaque/old").exists() or (root / "etc/base").exists())
            self.assertEqual((root / "workspace/suid").stat().st_mode & 0o7777, 0o4755)
            self.assertEqual(((root / "workspace/file").stat().st_uid, (root / "workspace/file").stat().st_gid), (1000, 7))
            self.assertFalse((root / ".sandpool").exists() or (root / "dev/null").exists())
        with self.subTest("docker-archive"):
            done = subprocess.run(["skopeo", "inspect", f"docker-archive:{file}"], check=True, timeout=60,
                                  stdout=subprocess.PIPE)
            self.assertEqual(len(json.loads(done.stdout)["Layers"]), 2)
        with self.subTest("a profile"):
            self.assertEqual(self.acquire("again", profile="again").sh(["sh", "-c", LOOK]), shown)
        for kind in ("docker", "podman"):
            with self.subTest(kind):
                if engines.is_possible(kind) is not None:
                    self.skipTest(engines.is_possible(kind))
                with engines.Engine(kind) as engine:
                    self.assertRuns(engine, data, snapshot, shown)

    def assertRuns(self, engine, data, snapshot, shown):
        status, answer = engine.call("POST", "/images/load", data, "application/x-tar")
        self.assertEqual((status, b"errorDetail" in answer), (200, False), answer)
        name = "sandpool-image:" + snapshot["snapshot_id"]
        for image in (name, "localhost/" + name):
            if engine.call("GET", f"/images/{image}/json")[0] == 200:
                break
        made = engine.json("POST", "/containers/create", {
            "Image": image, "Cmd": ["sh", "-c", LOOK], "HostConfig": {"NetworkMode": "none"}})["Id"]
        engine.json("POST", f"/containers/{made}/start")
        self.assertEqual(engine.json("POST", f"/containers/{made}/wait")["StatusCode"], 0)
        _, log = engine.call("GET", f"/containers/{made}/logs?stdout=1&stderr=1")
        text = b""
        while log:
            size = int.from_bytes(log[4:8], "big")
            text, log = text + log[8:8 + size], log[8 + size:]
        self.assertEqual(text.decode(), shown)
        engine.json("DELETE", f"/containers/{made}?force=1")

    def test_what_is_in_it(self):
        _, snapshot, box = self.made("inside")
        with tarfile.open(fileobj=io.BytesIO(self.image_of(snapshot))) as tar:
            self.assertEqual(tar.getnames()[-1], "index.json")
            files = blobs(tar)
        for name, data in files.items():
            if name.startswith("blobs/"):
                self.assertEqual(name, "blobs/sha256/" + hashlib.sha256(data).hexdigest())
        index = json.loads(files["index.json"])
        manifest = json.loads(files["blobs/sha256/" + index["manifests"][0]["digest"][7:]])
        config = json.loads(files["blobs/sha256/" + manifest["config"]["digest"][7:]])
        self.assertEqual(config["rootfs"]["diff_ids"], [layer["digest"] for layer in manifest["layers"]])
        self.assertEqual(config["created"], snapshot["created_at"])
        self.assertEqual({k: v for k, v in config["config"].items() if k != "Env"},
                         {"Cmd": ["/bin/sh"], "User": "1000:1000", "WorkingDir": "/workspace"})
        self.assertEqual([e.split("=")[0] for e in config["config"]["Env"]], ["PATH", "HOME", "USER", "LANG"])
        for secret in ("of the lease", "of the profile", "knows", box.lease["token"], box.id):
            for name, data in files.items():
                self.assertNotIn(secret.encode(), data, f"{secret} in {name}")
        with tarfile.open(fileobj=io.BytesIO(files["blobs/sha256/" + manifest["layers"][1]["digest"][7:]])) as tar:
            names = tar.getnames()
        self.assertIn("etc/.wh.base", names)
        self.assertIn("srv/opaque/.wh..wh..opq", names)
        self.assertNotIn("srv/.wh.whole", names)

    def test_of_the_host(self):
        """Of the machine's own directories there is what boxes see: what everybody may read, without rights by mode."""
        _, snapshot, _ = self.made("host")
        top = self.home / "machine"
        for path, mode in (("open", 0o755), ("closed", 0o700), ("closed/in", 0o644), ("secret", 0o600), ("suid", 0o6755),
                           ("group", 0o640), ("listed", 0o711)):
            if path in ("open", "closed", "listed"):
                (top / path).mkdir(parents=True)
            else:
                (top / path).write_text(path)
            (top / path).chmod(mode)
        (top / "open/mounted").mkdir()
        (top / "link").symlink_to("closed/in")
        os.mknod(top / "device", 0o666 | 0o020000, os.makedev(1, 3))
        os.chown(top / "open", 70000, 8)
        record = self.server.state / "oci/snapshots" / snapshot["snapshot_id"]
        plan = {"stage": "/mnt", "lower": str(self.home / "small"), "host": [str(top)], "config": "{}", "name": "x:y",
                "created": snapshot["created_at"], "max_bytes": 1 << 30,
                "layers": [{"disk": str(record / "disk"), "id_base": json.loads((record / "snapshot.json").read_text())["id_base"]}]}
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", top / "open/mounted"], check=True, timeout=10)
        try:
            (top / "open/mounted/below").write_text("x")
            done = self.helper(plan)
        finally:
            subprocess.run(["umount", top / "open/mounted"], check=True, timeout=10)
        with tarfile.open(fileobj=io.BytesIO(done)) as tar:
            files = blobs(tar)
        layers = json.loads(files["manifest.json"])[0]["Layers"]
        self.assertEqual(len(layers), 3)
        with tarfile.open(fileobj=io.BytesIO(files[layers[1]])) as tar:
            found = {m.name[len(str(top)):]: (oct(m.mode), m.uid, m.gid) for m in tar if m.name != str(top)[1:]}
        self.assertEqual(found, {"link": ("0o777", 0, 0), "open": ("0o755", 65534, 8), "open/mounted": ("0o755", 0, 0),
                                 "suid": ("0o755", 0, 0)})

    def helper(self, plan):
        ours, its = socket.socketpair()
        with ours:
            with its:
                child = subprocess.Popen(["/bin/sh", "-c", f'exec "$0" image 3<&{its.fileno()}', str(BIN / "sandpool-helper")],
                                         stdin=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[its.fileno()])
            child.stdin.write(json.dumps(plan).encode())
            child.stdin.close()
            data = b"".join(iter(lambda: ours.recv(1 << 20), b""))
        error = child.stderr.read()
        child.stderr.close()
        self.assertEqual((child.wait(), error), (0, b""))
        return data

    def test_refused(self):
        box = self.acquire("refused", profile="small")
        box.sh(["sh", "-c", "truncate -s 70G /workspace/vast"])
        snapshot = self.take(box)
        status, data = self.exported(snapshot, "?format=oci")
        self.assertEqual((status, json.loads(data)["error"]["code"]), (413, "body_too_large"), data)
        self.assertIn(b"'workspace/vast' is too large", data)
        box.sh(["sh", "-c", "rm /workspace/vast; echo > /workspace/.wh.file"])
        snapshot = self.take(box)
        status, data = self.exported(snapshot, "?format=oci")
        self.assertEqual((status, json.loads(data)["error"]["code"]), (501, "unsupported"), data)
        self.assertEqual(self.exported(snapshot)[0], 200, "in our own form it is no name of another kind")
        status, data = self.exported(snapshot, "?format=zip")
        self.assertEqual((status, json.loads(data)["error"]["code"]), (422, "invalid_field"), data)

    def test_import_says_what_it_is(self):
        _, snapshot, _ = self.made("import")
        status, answer = self.send(self.image_of(snapshot))
        self.assertEqual((status, answer["error"]["code"]), (422, "invalid_field"))
        self.assertIn("docker load", answer["error"]["message"])

    def test_command_line(self):
        _, snapshot, _ = self.made("line")
        target = self.home / "line.tar"
        done = self.cli("snapshot", "export", "--format", "oci", snapshot["snapshot_id"], str(target))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(target.read_bytes(), self.image_of(snapshot), "the same each time")
        done = self.cli("snapshot", "export", "--format", "zip", snapshot["snapshot_id"], str(target))
        self.assertEqual(done.returncode, 2, done)


if __name__ == "__main__":
    engines.isolate()
    main()
