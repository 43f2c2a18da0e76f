"""A small manager of sandboxes, for the tests: all it knows of them is in a file, so that each of its processes goes on where
another one ended.

    extension_manager.py STORE CONFIG COMMANDS      # the last two as JSON; prints the list of answers

Commands: [create, NAME, INPUTS], [ready, NAME], [run, NAME, COMMAND], [snapshot, NAME, SNAPSHOT], [restore, SNAPSHOT, NAME, INPUTS],
[quote, SECONDS], [destroy, NAME].
"""

import importlib
import json
import pathlib
import re
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "sand-boxer" / "ext.sandpool.yaml"

PROFILE = types.SimpleNamespace(
    id="profile.test", ttl=types.SimpleNamespace(default="4h", max="24h", idle_reap=None), network={"default": "deny", "egress": []},
    resources={"cpu": 0.5, "memory_mb": 128}, metadata={"cost_class": "low"})


def load(config):
    """The handler that the example registers."""
    module, name = re.search(r"^handler: (\S+):(\S+)$", EXAMPLE.read_text(), re.M).groups()
    return getattr(importlib.import_module(module), name)(config)


def flat(answer):
    """What may be stored: a flat dictionary of texts."""
    assert isinstance(answer, dict), answer
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in answer.items()), answer
    return answer


def act(store, extension, action, *args):
    handles, kept = store["handles"], store["snapshots"]
    if action == "create":
        handles[args[0]] = flat(extension.provision(PROFILE, args[1], "here"))
        return handles[args[0]]
    if action == "ready":
        return flat(extension.wait_ready(handles[args[0]]))
    if action == "run":
        return extension.box(handles[args[0]]).run(args[1]).check().stdout
    if action == "snapshot":
        kept[args[1]] = flat(extension.snapshot(handles[args[0]]))
        return kept[args[1]]
    if action == "restore":
        handles[args[1]] = flat(extension.restore_from_snapshot(PROFILE, kept[args[0]], args[2], "here"))
        return handles[args[1]]
    if action == "quote":
        quote = extension.estimate_cost(PROFILE, {}, duration_s=args[0])
        return None if quote is None else vars(quote)
    if action == "destroy":
        handle = handles[args[0]]
        return {**flat(extension.teardown(handle)), "usd": extension.meter_actual(handle, duration_s=1.0)}
    raise SystemExit(f"no action {action}")


def step(store, extension, command):
    try:
        return act(store, extension, *command)
    except Exception as error:  # what a manager would note down
        return {"error": getattr(error, "code", type(error).__name__), "message": str(error)}


def main():
    path = pathlib.Path(sys.argv[1])
    store = json.loads(path.read_text()) if path.exists() else {"handles": {}, "snapshots": {}}
    extension = load(json.loads(sys.argv[2]))
    answers = [step(store, extension, command) for command in json.loads(sys.argv[3])]
    path.write_text(json.dumps(store))
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
