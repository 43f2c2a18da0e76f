"""The provisioner's API on simulated boxes: DeerFlow's conversations field for field, who may call,
and one id is one box."""

import os

from fixtures import free_port, in_threads, main, wait_until
from provisioner import ANY_BOX, ID, KEY, Caller, ProvisionerCase, matches, sandbox


def wrong(*places):
    """A 422; each place is (type, loc, msg)."""
    return {"detail": [{"type": t, "loc": ["body", *loc], "msg": msg} for t, loc, msg in places]}


PATTERN = "string_pattern_mismatch"
ID_PATTERN = "String should match pattern '^[A-Za-z0-9._][A-Za-z0-9._-]{0,63}$'"
THREAD_PATTERN = "String should match pattern '^[A-Za-z0-9_-]{1,64}$'"
OBJECT = "Input should be a valid dictionary or object to extract fields from"

# As the original's client of August 2026 sends it, in order: request, then status and answer.
CONVERSATION = [
    ("GET", "/health", None, 200, {"status": "ok"}),
    ("GET", "/api/capabilities", None, 200,
     {"lark_cli_init_image": False, "lark_cli_broker_image": False}),
    ("GET", "/api/sandboxes", None, 200, {"sandboxes": [], "count": 0}),
    ("GET", f"/api/sandboxes/{ID}", None, 404, {"detail": f"Sandbox '{ID}' not found"}),
    ("GET", f"/api/sandboxes/{ID}/presence", None, 200,
     {"sandbox_id": ID, "exists": False, "container_id": None}),
    ("DELETE", f"/api/sandboxes/{ID}", None, 200, {"ok": True, "sandbox_id": ID}),
    ("POST", "/api/sandboxes",
     {"sandbox_id": ID, "thread_id": "thread-1", "user_id": "default",
      "include_legacy_skills": False, "provision_lark_cli_runtime": False,
      "provision_lark_cli_broker": False}, 200, sandbox()),
    ("GET", f"/api/sandboxes/{ID}", None, 200, sandbox()),
    ("GET", f"/api/sandboxes/{ID}/presence", None, 200,
     {"sandbox_id": ID, "exists": True, "container_id": ANY_BOX}),
    ("POST", "/api/sandboxes", {"sandbox_id": ID, "thread_id": "thread-1", "user_id": "default"},
     200, sandbox()),
    # the seed's client: no user
    ("POST", "/api/sandboxes", {"sandbox_id": ID, "thread_id": "thread-1"}, 200, sandbox()),
    # without a thread, and with what newer ones say
    ("POST", "/api/sandboxes",
     {"sandbox_id": "1f3a5b7c", "thread_id": None, "user_id": "alice", "max_shell_sessions": 7,
      "skills_container_path": "/mnt/skills", "provision_lark_cli_runtime": True,
      "something_new": {"a": 1}, "extra_mounts": []}, 200, sandbox("1f3a5b7c", sessions=7)),
    ("GET", "/api/sandboxes", None, 200,
     {"sandboxes": [sandbox(), sandbox("1f3a5b7c", sessions=7)], "count": 2}),
    ("DELETE", f"/api/sandboxes/{ID}", None, 200, {"ok": True, "sandbox_id": ID}),
    ("GET", f"/api/sandboxes/{ID}", None, 404, {"detail": f"Sandbox '{ID}' not found"}),
    ("DELETE", f"/api/sandboxes/{ID}", None, 200, {"ok": True, "sandbox_id": ID}),
    ("DELETE", "/api/sandboxes/1f3a5b7c", None, 200, {"ok": True, "sandbox_id": "1f3a5b7c"}),
    ("GET", "/api/sandboxes", None, 200, {"sandboxes": [], "count": 0}),
]

REFUSED = [
    (None, 422, wrong(("missing", [], "Field required"))),
    ("{", 422, wrong(("json_invalid", [0], "JSON decode error"))),
    ("[]", 422, wrong(("model_attributes_type", [], OBJECT))),
    ({}, 422, wrong(("missing", ["sandbox_id"], "Field required"))),
    ({"sandbox_id": None}, 422,
     wrong(("string_type", ["sandbox_id"], "Input should be a valid string"))),
    ({"sandbox_id": 7}, 422,
     wrong(("string_type", ["sandbox_id"], "Input should be a valid string"))),
    ({"sandbox_id": ""}, 422, wrong((PATTERN, ["sandbox_id"], ID_PATTERN))),
    ({"sandbox_id": ".."}, 422, wrong((PATTERN, ["sandbox_id"], ID_PATTERN))),
    ({"sandbox_id": "a/b"}, 422, wrong((PATTERN, ["sandbox_id"], ID_PATTERN))),
    ({"sandbox_id": "a" * 65}, 422, wrong((PATTERN, ["sandbox_id"], ID_PATTERN))),
    ({"sandbox_id": "a\nb"}, 422, wrong((PATTERN, ["sandbox_id"], ID_PATTERN))),
    ({"sandbox_id": "a", "thread_id": "x.y"}, 422, wrong((PATTERN, ["thread_id"], THREAD_PATTERN))),
    ({"sandbox_id": "a", "thread_id": ""}, 422, wrong((PATTERN, ["thread_id"], THREAD_PATTERN))),
    ({"sandbox_id": "a", "user_id": "a b"}, 422,
     wrong((PATTERN, ["user_id"], "String should match pattern '^[A-Za-z0-9_\\-]+$'"))),
    ({"sandbox_id": "a", "user_id": None}, 422,
     wrong(("string_type", ["user_id"], "Input should be a valid string"))),
    ({"sandbox_id": "a", "include_legacy_skills": "perhaps"}, 422,
     wrong(("bool_type", ["include_legacy_skills"], "Input should be a valid boolean"))),
    ({"sandbox_id": "a", "max_shell_sessions": 0}, 422,
     wrong(("greater_than", ["max_shell_sessions"], "Input should be greater than 0"))),
    ({"sandbox_id": "a", "max_shell_sessions": "many"}, 422,
     wrong(("int_type", ["max_shell_sessions"], "Input should be a valid integer"))),
    ({"sandbox_id": "a", "extra_mounts": {}}, 422,
     wrong(("list_type", ["extra_mounts"], "Input should be a valid list"))),
    ({"sandbox_id": "a", "extra_mounts": [{"host_path": "/srv/a"}, 1]}, 422,
     wrong(("missing", ["extra_mounts", 0, "container_path"], "Field required"),
           ("model_attributes_type", ["extra_mounts", 1], OBJECT))),
    ({"sandbox_id": "a", "extra_mounts": [{"host_path": f"/srv/{i}", "container_path": f"/{i}"}
                                          for i in range(11)]}, 422,
     wrong(("too_long", ["extra_mounts"],
            "List should have at most 10 items after validation, not 11"))),
    ({"sandbox_id": "a b", "thread_id": 5}, 422,
     wrong((PATTERN, ["sandbox_id"], ID_PATTERN),
           ("string_type", ["thread_id"], "Input should be a valid string"))),
    ({"sandbox_id": "a", "provision_lark_cli_broker": True}, 503,
     {"detail": "Lark CLI broker image is not configured"}),
]


class TestConversation(ProvisionerCase):
    def play(self, caller, steps):
        for method, target, body, status, want in steps:
            answer = caller.call(method, target, body)
            self.assertEqual(answer.status, status, (method, target, body, answer))
            self.assertTrue(matches(want, answer.json), (method, target, want, answer.json))

    def test_field_for_field(self):
        self.serve()
        self.play(self.caller(), CONVERSATION)

    def test_what_is_wrong_is_said_where(self):
        self.serve()
        caller = self.caller()
        for body, status, want in REFUSED:
            answer = caller.call("POST", "/api/sandboxes", body)
            self.assertEqual((answer.status, answer.json), (status, want), body)
        self.assertEqual(caller.ids(), [])
        refused = caller.create("a", provision_lark_cli_broker=True)
        self.assertEqual(refused.headers["X-DeerFlow-Capability-Refresh"], "lark-broker")

    def test_paths_and_methods_that_are_not_there(self):
        self.serve()
        self.play(self.caller(), [
            ("GET", "/", None, 404, {"detail": "Not Found"}),
            ("GET", "/api/nothing", None, 404, {"detail": "Not Found"}),
            ("GET", "/v1/pool", None, 404, {"detail": "Not Found"}),
            ("PUT", "/api/sandboxes", None, 405, {"detail": "Method Not Allowed"}),
            ("GET", "/api/sandboxes/%2e%2e", None, 404, {"detail": "Sandbox '..' not found"}),
        ])

    def test_a_body_that_is_too_long(self):
        self.serve()
        answer = self.caller().call("POST", "/api/sandboxes", "x" * (2 << 20))
        self.assertEqual((answer.status, answer.json),
                         (413, {"detail": "the request body is too large"}))

    def test_the_native_api_does_not_serve_it(self):
        client = self.client(self.serve())
        self.assertEqual(client.get("/api/sandboxes").status, 404)
        self.assertEqual(client.get("/health").status, 404)


class TestKey(ProvisionerCase):
    def assertUnauthorized(self, answer):
        self.assertEqual((answer.status, answer.text), (401, "Unauthorized"))

    def test_every_api_path_needs_it(self):
        self.serve()
        for key in ("", "x", KEY[:-1], KEY + "x", KEY.upper()):
            caller = self.caller(key=key)
            self.assertUnauthorized(caller.create("a"))
            self.assertUnauthorized(caller.get("a"))
            self.assertUnauthorized(caller.delete("a"))
            self.assertUnauthorized(caller.presence("a"))
            self.assertUnauthorized(caller.call("GET", "/api/sandboxes"))
            self.assertUnauthorized(caller.call("GET", "/api/capabilities"))
            self.assertEqual(caller.call("GET", "/health").json, {"status": "ok"})
        self.assertUnauthorized(self.caller(key="").call(
            "GET", "/api/sandboxes", headers={"Authorization": f"Bearer {KEY}"}))

    def test_without_a_key_nobody_calls(self):
        daemon = self.serve({"api_key": ""})
        for key in ("", KEY):
            self.assertUnauthorized(self.caller(key=key).call("GET", "/api/sandboxes"))
        self.assertEqual(self.caller().call("GET", "/health").status, 200)
        self.assertIn("provisioner.no_api_key", daemon.process.output())

    def test_from_a_file_and_changed_by_a_reload(self):
        path = os.path.join(self.directory, "key")
        with open(path, "w") as f:
            f.write("first-key-of-the-file\n")
        daemon = self.serve({"api_key": "", "api_key_file": path})
        client = self.client(daemon)
        self.assertEqual(self.caller(key="first-key-of-the-file").ids(), [])
        with open(path, "w") as f:
            f.write("second-key-of-the-file")
        self.assertOk(client.post("/v1/pool/reload"))
        self.assertUnauthorized(self.caller(key="first-key-of-the-file").get("a"))
        self.assertEqual(self.caller(key="second-key-of-the-file").ids(), [])
        with open(path, "w") as f:
            f.write("short")
        self.assertNotEqual(client.post("/v1/pool/reload").status, 200)
        self.assertEqual(self.caller(key="second-key-of-the-file").ids(), [])
        self.assertNotIn("of-the-file", daemon.process.output())

    def test_a_bad_file_is_said_at_start(self):
        daemon = self.serve({"api_key": "", "api_key_file": "/nowhere/key"}, start=False)
        daemon.start(wait=False)
        wait_until(lambda: not daemon.process.is_running(), "it ends")
        self.assertIn("provisioner.api_key_file '/nowhere/key'", daemon.process.output())


class TestOneBox(ProvisionerCase):
    def test_the_same_again(self):
        self.serve()
        caller = self.caller()
        first = caller.create(ID, thread_id="thread-1")
        self.assertEqual(caller.create(ID, thread_id="thread-1").json, first.json)
        self.assertEqual(caller.get(ID).json, first.json)
        self.assertEqual(len(caller.ids()), 1)

    def test_many_at_once(self):
        self.serve(profile={"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 200}})

        answers = in_threads(24, lambda i: self.once(lambda c: c.create(f"id-{i % 3}")))
        self.assertEqual({a.status for a in answers}, {200}, answers)
        self.assertEqual(len({a.json["container_id"] for a in answers}), 3)
        self.assertEqual(sorted(self.caller().ids()), ["id-0", "id-1", "id-2"])

    def test_another_thread_does_not_get_it(self):
        self.serve()
        caller = self.caller()
        self.assertOk(caller.create("a", thread_id="t1", user_id="u1"))
        for fields in ({"thread_id": "t2", "user_id": "u1"}, {"thread_id": "t1", "user_id": "u2"}):
            answer = caller.create("a", **fields)
            self.assertEqual((answer.status, answer.json), (409, {
                "detail": "Sandbox 'a' belongs to another caller, user or thread"}))

    def test_warm_boxes_are_used(self):
        client = self.client(self.serve(profile={"warm": {"min": 2, "max": 2}}))
        self.wait_blank(client, 2)
        self.assertOk(self.caller().create("a"))
        self.assertEqual(client.get("/v1/pool").json["acquires"]["warm"], 1)

    def test_it_does_not_expire(self):
        """Neither by the profile's time nor idle; DeerFlow says when."""
        client = self.client(self.serve(profile={"ttl_s": 1, "idle_timeout_s": 1}))
        box = self.assertOk(self.caller().create("a"))
        other = self.assertOk(client.acquire("b"))
        wait_until(lambda: client.get(f"/v1/sandboxes/{other['sandbox_id']}").status == 410,
                   "the native lease ends")
        self.assertEqual(self.caller().get("a").json["container_id"], box["container_id"])

    def test_unless_it_is_told_to(self):
        self.serve({"ttl_s": 1})
        caller = self.caller()
        self.assertOk(caller.create("a"))
        wait_until(lambda: caller.get("a").status == 404, "it expires")

    def test_of_the_profile_that_is_configured(self):
        client = self.client(self.serve(
            {"profile": "other"}, profiles={"default": {"backend": "sim"},
                                            "other": {"backend": "sim"}}))
        self.assertOk(self.caller().create("a"))
        self.assertEqual(client.get("/v1/sandboxes/a").json["profile"], "other")


class TestOthers(ProvisionerCase):
    def test_boxes_of_other_callers_do_not_exist(self):
        client = self.client(self.serve())
        lease = self.assertOk(client.acquire("theirs"))
        theirs = lease["sandbox_id"]
        caller = self.caller()
        self.assertEqual(caller.get(theirs).status, 404)
        self.assertEqual(caller.presence(theirs).json["exists"], False)
        self.assertEqual(caller.ids(), [])
        self.assertEqual(caller.delete(theirs).json, {"ok": True, "sandbox_id": theirs})
        self.assertEqual(client.get(f"/v1/sandboxes/{theirs}").json["state"], "leased")
        self.assertEqual(caller.create(theirs, thread_id="theirs").status, 409)
        self.assertEqual(caller.create(theirs).status, 409)
        self.assertEqual(client.get(f"/v1/sandboxes/{theirs}").json["generation"],
                         lease["generation"])

    def test_a_token_called_provisioner_is_somebody_else(self):
        tcp = free_port()
        self.serve(tcp={"listen": f"127.0.0.1:{tcp}",
                        "tokens": {"provisioner": "0123456789abcdef"}})
        self.assertOk(self.caller().create("a"))
        native = Caller(tcp, key="")
        self.addCleanup(native.close)
        answer = native.call("GET", "/v1/sandboxes/a",
                             headers={"Authorization": "Bearer 0123456789abcdef"})
        self.assertEqual(answer.status, 404, answer)


class TestOpen(ProvisionerCase):
    def test_the_boxes_own_address(self):
        sim = self.sim()
        client = self.client(self.serve({"boxes": "open"}, sim=sim))
        box = self.assertOk(self.caller().create("a"))
        self.assertEqual(box["sandbox_url"], client.get("/v1/sandboxes/a").json["sandbox_url"])
        self.assertEqual(self.caller().create("a").json, box)

    def test_a_box_that_cannot_be_opened_is_not_kept(self):
        client = self.client(self.serve({"boxes": "open"}))  # these have no agent
        answer = self.caller().create("a")
        self.assertEqual(answer.status, 500, answer)
        self.assertIn("Pod creation failed: the box could not be opened: ", answer.json["detail"])
        wait_until(lambda: self.caller().get("a").status == 404, "it is gone")
        self.assertEqual(client.get("/v1/pool").json["by_state"]["leased"], 0)


class TestAddress(ProvisionerCase):
    def url(self, host=None, **settings):
        self.serve(settings)
        answer = self.caller().call("POST", "/api/sandboxes", {"sandbox_id": "a"},
                                    headers={"Host": host} if host else {})
        return self.assertOk(answer)["sandbox_url"]

    def test_what_the_caller_used(self):
        self.assertTrue(self.url(host="pool.example:99").startswith("http://pool.example:99/s/a/"))

    def test_what_is_configured(self):
        self.assertTrue(self.url(advertise_host="gate").startswith(f"http://gate:{self.port}/s/a/"))

    def test_a_host_that_is_none(self):
        self.assertTrue(self.url(host="a/b@c").startswith(f"http://127.0.0.1:{self.port}/s/a/"))


if __name__ == "__main__":
    main()
