"""Images of the docker backend: fetched before anybody needs them, from a registry that wants a password, is slow, or
does not have them; what callers and operators are shown; and that no password is shown to anybody."""

import json
import os
import pathlib

import engine_case
from engine_case import EngineCase
from fixtures import main, wait_until
from registry import Registry

PASSWORD = "open-sesame-7"


class Images:
    @classmethod
    def setUpClass(cls):
        if cls.KIND == "podman":  # unlike Docker it does not trust this machine's own registries by itself
            path = pathlib.Path("/tmp", f"sandpool-registries-{os.getpid()}.conf")
            path.write_text('[[registry]]\nlocation = "127.0.0.1"\ninsecure = true\n'
                            '[[registry]]\nprefix = "127.0.0.1"\nlocation = "127.0.0.1"\ninsecure = true\n')
            cls.addClassCleanup(path.unlink)
            os.environ["CONTAINERS_REGISTRIES_CONF"] = str(path)
            cls.addClassCleanup(os.environ.pop, "CONTAINERS_REGISTRIES_CONF")
        super().setUpClass()

    def registry(self, password=PASSWORD):
        registry = Registry(self, engine_case.engines.image_tar(), password,
                            {"WorkingDir": "/place", "User": "ann"})
        self.addCleanup(self.engine.call, "DELETE", f"/images/{registry.host}/box:1?force=1")
        return registry

    def auth_file(self, content):
        path = pathlib.Path(self.directory, "auth.json")
        path.write_text(json.dumps(content))
        path.chmod(0o600)
        return str(path)

    def profile(self, registry, content=None, name="box:1", **fields):
        docker = dict(fields.pop("docker", {}))
        if content is not None:
            docker["auth_file"] = self.auth_file(content)
        return {**self.config(docker=docker, **{"warm": 0, **fields}), "image": f"{registry.host}/{name}"}

    def reason(self, daemon, profile="default"):
        return next(p["breaker"]["reason"] for p in self.get(daemon, "/v1/pool").json["profiles"] if p["name"] == profile)

    def test_slow_pull_in_the_background(self):
        registry = self.registry()
        registry.may_go_on.clear()
        daemon = self.daemon_on({
            "default": self.config(), "slow": self.profile(registry, registry.credentials(), create={
                "timeout_s": 1, "backoff_min_ms": 50, "backoff_max_ms": 100, "breaker_failures": 2})})
        event = self.wait_event(daemon, "image.pulling")  # nobody has asked for a box of it
        self.assertEqual((event["image"], event["backend"]), (f"{registry.host}/box:1", "docker:" + self.engine.address))
        self.assertEqual(self.box(daemon, "quick").sh("echo quick"), "quick\n")  # others do not wait for it
        self.assertEqual(self.events(daemon, "image.pulled"), [])
        answer = wait_until(lambda: self.refused(daemon), "callers are told what is waited for")
        self.assertEqual(answer.status, 503)
        self.assertIn("is still being pulled", answer.json["error"]["message"])
        self.assertIn("is still being pulled", self.reason(daemon, "slow"))
        registry.may_go_on.set()
        self.wait_event(daemon, "image.pulled")
        box = wait_until(lambda: self.try_box(daemon, "one"), "boxes are made of it")
        self.assertEqual(box.sh("id -un && pwd").split(), ["ann", "/place"])
        self.assertLess(len(self.events(daemon, "image.pulling")), 20)
        told = daemon.process.output() + json.dumps(self.events(daemon))
        self.assertNotIn(PASSWORD, told)
        self.assertNotIn(registry.credentials()["auths"][registry.host]["auth"], told)

    def refused(self, daemon):
        answer = daemon.acquire("early", profile="slow", wait_ms=1500)
        return answer if "pulled" in answer.text else None

    def try_box(self, daemon, thread):
        answer = daemon.acquire(thread, profile="slow", wait_ms=5000)
        return engine_case.Box(answer.json) if answer.status == 200 else None

    def failure(self, profile):
        daemon = self.daemon_on({"default": {**profile, "create": {
            "backoff_min_ms": 20, "backoff_max_ms": 50, "breaker_failures": 2}}})
        event = self.wait_event(daemon, "image.failed")

        def told():
            answer = daemon.acquire("one", wait_ms=3000)
            self.assertEqual(answer.status, 503, answer)
            message = answer.json["error"]["message"]
            return message if self.reason(daemon) and self.reason(daemon) in message else None
        message = wait_until(told, "the caller is told the reason")
        self.assertNotIn(PASSWORD, daemon.process.output() + message)
        self.assertIn(profile["image"], event["image"])
        return message

    def test_no_password(self):
        self.assertRegex(self.failure(self.profile(self.registry())),
                         "pull failed.*(no basic auth|unauthorized|authentication required)")

    def test_wrong_password(self):
        registry = self.registry()
        self.assertRegex(self.failure(self.profile(registry, {"auths": {registry.host: {
            "auth": "YW5uOndyb25n"}}})), "pull failed.*(unauthorized|no basic auth|authentication required)")

    def test_no_such_image(self):
        registry = self.registry(password=None)
        self.assertRegex(self.failure(self.profile(registry, name="none:1")), "pull failed.*(not found|unknown)")

    def test_no_registry(self):
        """The engine reports a long story; its end is shown, from the beginning of a word on."""
        message = self.failure({**self.config(warm=0), "image": f"127.0.0.1:1/{'far/' * 20}away:1"})
        self.assertRegex(message, "pull failed: [a-zA-Z].*connection refused")

    def test_never(self):
        registry = self.registry(password=None)
        self.assertIn("docker.pull is never", self.failure(self.profile(registry, docker={"pull": "never"})))
        self.assertEqual(registry.requests, [])

    def test_credential_helper(self):
        registry = self.registry()
        self.assertIn("credential helper 'desktop'", self.failure(self.profile(
            registry, {"auths": {registry.host: {}}, "credsStore": "desktop"})))

    def test_always(self):
        registry = self.registry()
        profile = self.profile(registry, registry.credentials(), docker={"pull": "always"})
        daemon = self.daemon_on({"default": profile})
        self.wait_event(daemon, "image.pulled")
        self.box(daemon, "one")
        self.box(daemon, "two")
        self.assertEqual(len(self.events(daemon, "image.pulled")), 1)  # not again for each box
        before = len(registry.requests)
        daemon.restart()
        wait_until(lambda: len(registry.requests) > before, "the registry is asked again")
        wait_until(lambda: len(self.events(daemon, "image.pulled")) == 2, "and nothing is new")


class ImagesDocker(Images, EngineCase):
    KIND = "docker"


class ImagesPodman(Images, EngineCase):
    KIND = "podman"
    test_never = test_credential_helper = test_wrong_password = None  # nothing there is the engine's own way


if __name__ == "__main__":
    main()
