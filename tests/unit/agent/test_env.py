"""/v1/agent/env: the environment of what is started from now on."""


from agent_client import AgentTest, main

ENV = "/v1/agent/env"


class Env(AgentTest):
    def change(self, **fields):
        answer = self.post(ENV, fields)
        self.assertEqual(answer.status, 200, answer)
        return answer.json["env"]

    def show(self, name):
        return self.bash(f'printf %s "${{{name}-none}}"')["stdout"]

    def shell(self, command, **fields):
        answer = self.post("/v1/shell/exec", {"command": command, **fields})
        self.assertEqual(answer.status, 200, answer)
        return answer.data["output"]

    def test_seen_by_what_comes_and_not_by_what_is(self):
        before = self.start(command="read x; echo ${LATE-none}", stdin=True)
        self.assertEqual(self.shell("echo ${LATE-none}"), "none\n")
        self.assertEqual(self.change(set={"LATE": "a b=c"})["LATE"], "a b=c")
        self.assertEqual(self.show("LATE"), "a b=c")
        after = self.start(argv=["sh", "-c", "echo $LATE"])
        self.wait(after)
        self.assertEqual(self.process(after, "/output").body, b"a b=c\n")
        self.assertEqual(self.shell("echo ${LATE-none}"), "none\n")
        new = self.post("/v1/shell/sessions/create", {"id": "new"}).data["session_id"]
        self.assertEqual(self.shell("echo $LATE", id=new), "a b=c\n")
        self.call("POST", f"/v1/agent/jobs/{before}/stdin?eof=1", b"go\n")
        self.wait(before)
        self.assertEqual(self.process(before, "/output").body, b"none\n")

    def test_unset_also_what_the_agent_was_given(self):
        self.assertIn("PATH", self.get(ENV).json["env"])
        self.change(set={"A": "1", "B": "2"})
        env = self.change(unset=["A", "PATH", "NEVER_THERE"], set={"B": "3"})
        self.assertNotIn("A", env)
        self.assertNotIn("PATH", self.get(ENV).json["env"])
        self.assertEqual((self.show("A"), self.show("B")), ("none", "3"))
        self.assertEqual(self.change(unset=["C"], set={"C": "both"})["C"], "both")

    def test_order(self):
        self.assertEqual(self.show("HOME"), str(self.home))
        self.change(set={"HOME": "/set", "X": "set"})
        self.assertEqual((self.show("HOME"), self.show("X")), ("/set", "set"))
        self.assertEqual(self.bash("echo $HOME $X", env={"X": "asked"})["stdout"], "/set asked\n")
        self.change(unset=["HOME"])
        self.assertEqual(self.show("HOME"), str(self.home))

    def test_token_is_not_among_them(self):
        self.assertNotIn("SANDPOOL_AGENT_TOKEN", self.get(ENV).json["env"])
        self.assertEqual(self.get(ENV, token=None).status, 401)
        self.assertEqual(self.post(ENV, {"set": {"X": "1"}}, token="wrong").status, 401)

    def test_refusals_change_nothing(self):
        before = self.get(ENV).json["env"]
        for body in ({"set": {"GOOD": "1", "1BAD": "x"}}, {"set": {"GOOD": "1", "A=B": "x"}},
                     {"set": {"GOOD": "1", "": "x"}}, {"set": {"GOOD": 1}}, {"set": ["GOOD"]},
                     {"set": {"GOOD": "1"}, "unset": ["a-b"]}, {"unset": "PATH"}, {"unset": [1]},
                     {"set": {"GOOD": "1"}, "more": 1}, {"set": {"GOOD": None}},
                     {"set": {f"N{i}": "x" for i in range(257)}},
                     {"set": {"GOOD": "1", "BIG": "x" * 131072}},
                     {"set": {"N" * 257: "x"}}):
            answer = self.post(ENV, body)
            self.assertEqual((answer.status, answer.json["error"]["code"]), (422, "invalid_field"),
                             str(body)[:100])
        self.assertEqual(self.post(ENV, b"[]").status, 400)
        self.assertEqual(self.get(ENV).json["env"], before)

    def test_limits_hold_over_many_calls(self):
        self.change(unset=list(self.get(ENV).json["env"]))
        for i in range(8):
            self.change(set={f"N{i}_{j}": "" for j in range(32)})
        self.assertEqual(self.post(ENV, {"set": {"ONE_MORE": "x"}}).status, 422)
        self.change(set={"N0_0": "replaced"})
        self.change(unset=["N7_0"], set={"ONE_MORE": "x"})
        self.change(unset=[f"N{i}_{j}" for i in range(8) for j in range(32)])
        self.change(set={"A": "x" * 65000, "B": "x" * 65000})
        self.assertEqual(self.post(ENV, {"set": {"C": "x" * 2000}}).status, 422)
        self.assertEqual(self.bash("echo ${#A} ${#B}")["stdout"], "65000 65000\n")


if __name__ == "__main__":
    main()
