"""Snapshots of containers as files and as images: what is in them, what comes back, what a hostile file can name, and what is left
when somebody goes away or the daemon is killed in the middle."""

import contextlib
import gzip
import hashlib
import http.client
import io
import json
import tarfile

import bundle_case
from bundle_case import bundle, compress, entry, unpack
from docker_case import INSTANCE, engines, main, wait_until
from docker_snapshot_case import SnapshotCase
from fixtures import Client, UnixConnection
from test_crash import fault_names


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def files_of(archive):
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}


def layer(name, text):
    return entry(name, data=text) + bytes(1024)


def image(config, layers, tag="x:1", manifest=None):
    """The entries of an image in a file, with what a stranger would like to name it."""
    blobs = [json.dumps({"config": config, "os": "linux", "architecture": "amd64",
                         "rootfs": {"type": "layers", "diff_ids": [sha(one) for one in layers]}}).encode()]
    blobs.append(json.dumps(manifest or {"schemaVersion": 2, "config": {"digest": sha(blobs[0])},
                                         "layers": [{"digest": sha(one)} for one in layers]}).encode())
    names = [{"Config": "blobs/sha256/" + sha(blobs[0])[7:], "RepoTags": [tag], "Layers": []}]
    index = {"schemaVersion": 2, "manifests": [{"digest": sha(blobs[1]), "annotations": {"io.containerd.image.name": tag}}]}
    return [entry("oci-layout", data=b"{}"), *(entry("blobs/sha256/" + sha(one)[7:], data=one) for one in layers + blobs),
            entry("manifest.json", data=json.dumps(names).encode()), entry("index.json", data=json.dumps(index).encode())]


class Exports(SnapshotCase):
    kind = "docker"

    def setUp(self):
        super().setUp()
        self.daemon = self.start(env={"KEPT": "by the profile"})

    def end(self, daemon):
        for one in self.engine.json("GET", "/images/json"):
            for tag in one["RepoTags"] or []:
                if "sandpool-image" in tag:
                    self.engine.json("DELETE", f"/images/{tag}?force=1")
        super().end(daemon)

    # what BundleCase has, with another daemon
    def exported(self, snapshot, query=""):
        connection = UnixConnection(self.daemon.socket, 60)
        with contextlib.closing(connection):
            connection.request("GET", f"/v1/snapshots/{snapshot['snapshot_id']}/export{query}")
            response = connection.getresponse()
            return response.status, response.read()

    def file_of(self, snapshot, query=""):
        status, data = self.exported(snapshot, query)
        self.assertEqual(status, 200, data[:300])
        return data

    def send(self, data, query=""):
        self.server = self.daemon
        return bundle_case.BundleCase.send(self, data, query)

    def head(self, **fields):
        about = {"name": "made", "profile": "default", "backend": "docker"}
        return {"format": "sandpool-snapshot", "version": 1, "snapshot": about, "base": None, "bytes": 1 << 20, "files": 1, **fields}

    def refused(self, data, status, code, words=""):
        before = {i["Id"] for i in self.engine.json("GET", "/images/json?all=1")}
        got, answer = self.send(data)
        self.assertEqual((got, answer["error"]["code"]), (status, code), answer)
        self.assertIn(words, answer["error"]["message"])
        wait_until(lambda: {i["Id"] for i in self.engine.json("GET", "/images/json?all=1")} == before, "no image is left")

    def snapshot(self):
        box = self.box(self.daemon, "source", envs={"SECRET": "of the lease"}, metadata={"k": 1})
        box.sh("echo one > /place/f; ln -s f /place/to; rm /bin/pwd || true")
        return box, self.take(self.daemon, box, name="first", metadata={"k": 1})

    def test_there_and_back(self):
        box, snapshot = self.snapshot()
        data = self.file_of(snapshot)
        head, archive = unpack(data)
        self.assertEqual((head["snapshot"]["backend"], head["snapshot"]["name"], head["base"]), ("docker", "first", None))
        for secret in (box.lease["token"], box.id, "of the lease", "by the profile", "sandpool.record"):
            self.assertNotIn(secret.encode(), archive, secret)
        status, back = self.send(data, "?name=back")
        self.assertEqual(status, 200, back)
        self.assertEqual([back[k] for k in ("name", "profile", "metadata", "layers", "parent", "env_count")],
                         ["back", "default", {"k": 1}, 1, None, 0])
        self.assertRegex(back["digest"], "^sha256:[0-9a-f]{64}$")
        self.delete(self.daemon, snapshot)
        self.assertEqual(self.listed(self.daemon), [back["snapshot_id"]])
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.client(self.daemon).get(f"/v1/snapshots/{back['snapshot_id']}").json, back)
        copy = self.restored(self.daemon, back, "copy")
        self.assertEqual(copy.sh("cat /place/to; id -u; pwd"), box.sh("cat /place/to; id -u; pwd"))
        again = self.take(self.daemon, copy)
        self.assertEqual((again["parent"], again["layers"]), (back["snapshot_id"], 2))

    def test_as_an_image(self):
        box, snapshot = self.snapshot()
        data = self.file_of(snapshot, "?format=oci")
        files = files_of(data)
        for secret in (box.lease["token"], box.id, "of the lease", "by the profile", "sandpool.record"):
            self.assertNotIn(secret.encode(), data, secret)
        self.assertEqual(list(files)[-1], "index.json")
        config = json.loads(files[json.loads(files["manifest.json"])[0]["Config"]])
        self.assertEqual((config["config"]["User"], config["config"]["WorkingDir"]), ("ann", "/place"))
        self.assertNotIn("Labels", config["config"])
        status, answer = self.engine.call("POST", "/images/load", data, "application/x-tar")
        self.assertEqual((status, b"errorDetail" in answer), (200, False), answer)
        name = ("localhost/" if self.kind == "podman" else "") + "sandpool-image:" + snapshot["snapshot_id"]
        made = self.engine.json("POST", "/containers/create", {
            "Image": name, "Cmd": ["sh", "-c", "cat /place/to"], "HostConfig": {"NetworkMode": "none"}})["Id"]
        self.engine.json("POST", f"/containers/{made}/start")
        self.assertEqual(self.engine.json("POST", f"/containers/{made}/wait")["StatusCode"], 0)
        self.assertTrue(self.engine.call("GET", f"/containers/{made}/logs?stdout=1")[1].endswith(b"one\n"))
        self.engine.json("DELETE", f"/containers/{made}?force=1")

    def test_what_a_stranger_names(self):
        """A file reaches no image but its own, and no record but ours."""
        before = self.engine.json("GET", f"/images/{engines.IMAGE}/json")["Id"]
        labels = {"sandpool.snapshot": INSTANCE, "sandpool.record": "x", "other": "y"}
        config = {"Labels": labels, "Env": ["A=b"], "Volumes": {"/v": {}}, "OnBuild": ["RUN x"], "User": "1000",
                  "Healthcheck": {"Test": ["CMD", "x"]}}
        for tag in (engines.IMAGE, "docker.io/library/" + engines.IMAGE, "sandpool-snapshot:0000000000000000"):
            status, back = self.send(bundle(self.head(), image(config, [layer("f", b"text")], tag)))
            self.assertEqual(status, 200, back)
            name = "sandpool-snapshot:" + back["snapshot_id"]
            found = self.engine.json("GET", f"/images/{name}/json")
            self.assertEqual([t.rsplit("/", 1)[-1] for t in found["RepoTags"]], [name])
            self.assertEqual(set(found["Config"]["Labels"]), {"sandpool.snapshot", "sandpool.record"})
            self.assertEqual((found["Config"]["User"], found["Config"]["Env"]), ("1000", ["A=b"]))
            self.assertFalse(found["Config"].get("Volumes") or found["Config"].get("OnBuild") or found["Config"].get("Healthcheck"))
            self.assertEqual(found["Id"].rsplit(":", 1)[-1], back["digest"][7:])
        self.assertEqual(self.engine.json("GET", f"/images/{engines.IMAGE}/json")["Id"], before)
        self.assertEqual(len(self.listed(self.daemon)), 3)

    def test_files_that_are_not_good(self):
        good = image({}, [layer("f", b"text")])
        whole = bundle(self.head(), good)
        self.refused(bundle(self.head(), good, digest="sha256:" + "0" * 64), 422, "invalid_field", "damaged")
        self.refused(whole[:-20], 422, "invalid_field")
        self.refused(bundle(self.head(), [*good, entry("other", data=b"x")]), 422, "invalid_field", "no exported snapshot has")
        self.refused(bundle(self.head(), [*good, entry("repositories", data=b"{}")]), 422, "invalid_field")
        self.refused(bundle(self.head(), [entry("blobs/sha256/" + "0" * 64, data=b"x"), *good]), 422, "invalid_field", "digest")
        self.refused(bundle(self.head(), [entry("blobs/sha256/../x", data=b"x"), *good]), 422, "invalid_field")
        self.refused(bundle(self.head(), [entry("index.json", tarfile.SYMTYPE, link="/etc/passwd"), *good]), 422, "invalid_field")
        self.refused(bundle(self.head(), good[:2] + good[1:]), 422, "invalid_field", "twice")
        for name, values in {"WorkingDir": ("../..", "/proc/self/fd/7", "//sys", "/etc/../proc", "/a\nb", "/a" * 200), "User": ("-1", "4294967295", "a\nb", "1:x\x1b"),
                             "Env": (["=x"], ["A=1", "B"])}.items():
            for value in values:
                self.refused(bundle(self.head(), image({name: value}, [layer("f", b"text")])), 422, "invalid_field", name)
        self.refused(bundle(self.head(), good[:-1]), 422, "invalid_field", "one image")
        self.refused(bundle(self.head(), image({}, [layer("f", b"x")], manifest={"config": {"digest": "sha256:x"}})), 422,
                     "invalid_field", "missing")
        self.refused(bundle(self.head(bytes=10), image({}, [layer("f", bytes(5 << 20))])), 413, "body_too_large", "than it says")
        self.refused(bundle(self.head(bytes=1 << 40), good), 413, "body_too_large")
        about = {**self.head()["snapshot"], "backend": "oci"}
        self.refused(bundle(self.head(snapshot=about), good), 409, "spec_conflict", "is of backend 'oci'")
        self.refused(b"".join(good) + bytes(1024), 422, "invalid_field", "docker load")
        self.assertEqual(self.send(whole)[0], 200)

    def test_layers_that_grow(self):
        """An engine unpacks what is compressed and fills what is a hole: neither comes to it."""
        good = layer("f", b"text")
        hole = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "f", "GNU.sparse.realsize": str(3 << 30)}
        for one, words in ((gzip.compress(good, mtime=0), "is compressed"), (compress(good), "is compressed"),
                           (gzip.compress(bytes(3 << 20), mtime=0) + bytes(2 << 20), "compressed"),
                           (entry("GNUSparseFile.0/f", data=b"1\n0\n0\n".ljust(512, b"\0"), records=hole) + bytes(1024), "sparse"),
                           (b"this is no archive" * 100, "no tar archive"), (good[:700], "ends in the middle")):
            self.refused(bundle(self.head(), image({}, [good, one])), 422, "invalid_field", words)
        self.assertEqual(self.send(bundle(self.head(bytes=4 << 20), image({}, [good, layer("g", bytes(3 << 20))])))[0], 200)

    def test_what_the_engine_opens(self):
        """To start a container it reads who its user is: a pipe there would keep it for ever, and its list of containers with it."""
        base = files_of(unpack(self.file_of(self.snapshot()[1]))[1])
        layers = [base[name] for name in json.loads(base["manifest.json"])[0]["Layers"]]
        config = json.loads(base[json.loads(base["manifest.json"])[0]["Config"]])["config"]
        fifo, link = tarfile.FIFOTYPE, tarfile.SYMTYPE

        def acquired(number, *entries):
            status, back = self.send(bundle(self.head(bytes=1 << 24), image(config, [*layers, b"".join(entries) + bytes(1024)])))
            self.assertEqual(status, 200, back)
            return self.daemon.acquire(f"thread-{number}", snapshot_id=back["snapshot_id"], wait_ms=20000)

        into_proc = [entry("proc/self/fd/7", tarfile.DIRTYPE, mode=0o755), entry("place", link="/proc/self/fd/7", kind=link)]
        for number, (words, *entries) in enumerate((
                ("'/place' is a link to where no box can begin", *into_proc),
                ("is not a directory", entry("place", data=b"x")),
                ("'/.sandpool' is", entry(".sandpool", link="/tmp", kind=link)),
                ("'/etc/passwd' is a named pipe", entry("etc/passwd", fifo)),
                ("'/etc/group' is a named pipe", entry("etc/group", link="../one", kind=link), entry("one", link="/two/p", kind=link),
                 entry("two", link="var", kind=link), entry("var/p", fifo)),
                ("'/etc/passwd' is a directory", entry("etc/passwd", tarfile.DIRTYPE)),
                ("no matching entries in passwd", entry("etc/passwd", data=b"somebody:x:7:7::/:/bin/sh\n")),
                ("'/etc/group' is longer", entry("etc/group", data=bytes(5 << 20))))):
            answer = acquired(number, *entries)
            self.assertEqual((answer.status, answer.json["error"]["code"]), (422, "invalid_field"), answer)
            self.assertIn(words, answer.json["error"]["message"])
        elsewhere = [entry("there", tarfile.DIRTYPE, mode=0o755), entry("place", link="/there", kind=link)]
        answer = acquired("good", *elsewhere, entry("etc/group", link="../groups", kind=link), entry("groups", data=b"ann:x:1000:\n"))
        self.assertEqual(answer.status, 200, answer)
        self.assertAgree(self.daemon)

    def images_there(self):
        return {i["Id"] for i in self.engine.json("GET", "/images/json?all=1")}

    def test_cut(self):
        """By its caller, and by a daemon that is killed, while much is under way."""
        box = self.box(self.daemon, "source")
        box.sh("head -c 20000000 /dev/urandom > /place/f")
        snapshot = self.take(self.daemon, box)
        data, only, images = self.file_of(snapshot), self.listed(self.daemon), self.images_there()
        for is_killed in (False, True):
            with contextlib.closing(UnixConnection(self.daemon.socket, 60)) as connection:
                connection.putrequest("POST", "/v1/snapshots/import")
                connection.putheader("Content-Length", str(len(data)))
                connection.endheaders(data[:-1000000])
                self.restart(is_killed)
            self.assertNothingMoves(only, images)
            with contextlib.closing(UnixConnection(self.daemon.socket, 60)) as connection:
                connection.request("GET", f"/v1/snapshots/{snapshot['snapshot_id']}/export?format=oci")
                connection.getresponse().read(100000)
                self.restart(is_killed)
            self.assertNothingMoves(only, images)
        self.assertEqual(self.send(data)[0], 200)

    def restart(self, is_wanted):
        if is_wanted:
            self.daemon.kill()
            self.daemon.start()

    def assertNothingMoves(self, only, images):
        wait_until(lambda: self.running(self.helper) <= len(self.containers()), "no helper is left")
        wait_until(lambda: (self.listed(self.daemon), self.images_there()) == (only, images), "no image is left")

    def test_killed_at_named_points(self):
        _, snapshot = self.snapshot()
        data = self.file_of(snapshot)
        only = self.listed(self.daemon)
        for point in ("snapshot.sent", "snapshot.loaded"):
            self.assertIn(point, fault_names())
            self.daemon.kill()
            self.daemon.start(env={"SANDPOOL_CRASH_AT": f"{point}:1"})
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.send(data)
            wait_until(lambda: not self.daemon.process.is_running(), "crash")
            self.daemon.start()
            extra = [s for s in self.listed(self.daemon) if s not in only]
            self.assertLessEqual(len(extra), 1)
            for one in extra:  # it is whole
                copy = self.restored(self.daemon, {"snapshot_id": one}, point.replace(".", "-"))
                self.assertEqual(copy.sh("cat /place/to"), "one\n")
                self.client(self.daemon).delete(f"/v1/sandboxes/{copy.id}")
                self.delete(self.daemon, {"snapshot_id": one})
        self.assertAgree(self.daemon)


class PodmanExports(Exports):
    kind = "podman"


if __name__ == "__main__":
    assert engines and Client
    main()
