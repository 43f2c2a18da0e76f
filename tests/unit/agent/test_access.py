"""/v1/agent/access: a box that serves without its token."""

import os

from agent_client import TOKEN, AgentTest, main

ACCESS = "/v1/agent/access"


class Access(AgentTest):
    def runs(self, token):
        return self.post("/v1/shell/exec", {"command": "true"}, token=token).status

    def test_opened_and_closed_again(self):
        self.assertEqual(self.runs(None), 401)
        self.assertEqual(self.get("/v1/agent").json["open"], False)
        answer = self.post(ACCESS, {"open": True})
        self.assertEqual((answer.status, answer.json), (200, {"open": True}))
        self.assertEqual(self.runs(None), 200)
        self.assertEqual(self.runs("wrong"), 200)
        self.assertEqual(self.get("/v1/agent", token=None).json["open"], True)
        self.assertEqual(self.post(ACCESS, {"open": False}).json, {"open": False})
        self.assertEqual(self.runs(None), 401)
        self.assertEqual(self.get("/v1/sandbox", token=None).status, 200)

    def test_only_with_the_token(self):
        for token in (None, "wrong"):
            self.assertEqual(self.post(ACCESS, {"open": True}, token=token).status, 401)
        self.assertEqual(self.runs(None), 401)

    def test_what_is_about_the_agent_itself_stays_closed(self):
        self.post(ACCESS, {"open": True})
        self.assertEqual(self.post(ACCESS, {"open": False}, token=None).status, 401)
        self.assertEqual(self.post("/v1/agent/env", {"set": {"A": "1"}}, token=None).status, 401)
        self.assertEqual(self.get("/v1/agent/env", token=None).status, 401)

    def test_what_it_does_not_understand_changes_nothing(self):
        for body in ({"open": "yes"}, {"opened": True}, {"open": True, "x": 1}):
            self.assertEqual(self.post(ACCESS, body).status, 422, body)
        self.assertEqual(self.post(ACCESS, {}).json, {"open": False})
        self.assertEqual(self.runs(None), 401)

    def test_each_start_has_a_life_of_its_own(self):
        first = self.get("/v1/sandbox", token=None).headers["X-Sandbox-Life"]
        self.assertRegex(first, "^[0-9a-f]{16}$")
        self.assertEqual(self.get("/v1/sandbox").headers["X-Sandbox-Life"], first)
        self.stop_agent()
        self.setUp()
        self.assertNotEqual(self.get("/v1/sandbox", token=None).headers["X-Sandbox-Life"], first)


class Tokenless(AgentTest):
    """As in the Pod of a provisioner that hands out no token."""

    def begin(self, *arguments, **env):
        self.arguments = list(arguments)
        kept = {name: os.environ.get(name) for name in env}
        os.environ.update(env)
        try:
            super().setUp()
        finally:
            for name, value in kept.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value

    def setUp(self):
        pass  # each test starts its own

    def agent_argv(self, argv):
        return ["env", "-u", "SANDPOOL_AGENT_TOKEN", *argv, *self.arguments]

    def runs(self, token=None):
        return self.post("/v1/bash/exec", {"command": "echo hi"}, token=token)

    def test_only_health_without_the_option(self):
        self.begin()
        answer = self.runs()
        self.assertEqual(answer.status, 401, answer)
        self.assertIn("--open", answer.json["error"]["message"])
        self.assertEqual(self.get("/v1/sandbox", token=None).status, 200)

    def check_open(self):
        self.assertEqual(self.runs().data["stdout"], "hi\n")
        self.assertEqual(self.runs("any").status, 200)
        self.assertEqual(self.post("/v1/agent/env", {"set": {"LATE": "1"}}, token=None).status, 200)
        answer = self.post("/v1/bash/exec", {"command": "echo $LATE"}, token=None)
        self.assertEqual(answer.data["stdout"], "1\n")
        self.assertEqual(self.post(ACCESS, {"open": False}, token=None).status, 501)
        self.assertEqual(self.runs().status, 200)

    def test_by_the_option(self):
        self.begin("--open")
        self.check_open()

    def test_by_the_environment(self):
        self.begin(SANDPOOL_AGENT_OPEN="1")
        self.check_open()


class TokenWins(AgentTest):
    def agent_argv(self, argv):
        return [*argv, "--open"]

    def test_a_token_is_asked_for(self):
        self.assertEqual(self.post("/v1/bash/exec", {"command": "true"}, token=None).status, 401)
        self.assertEqual(self.post("/v1/bash/exec", {"command": "true"}, token=TOKEN).status, 200)


if __name__ == "__main__":
    main()
