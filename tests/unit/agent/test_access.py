"""/v1/agent/access: a box that serves without its token."""

import unittest

from agent_client import AgentTest

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


if __name__ == "__main__":
    unittest.main()
