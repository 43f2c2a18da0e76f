"""The calls of the API as data: what is sent and how the answer reads. The two clients send them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import (
    Any, Callable, Generic, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union)
from urllib.parse import quote, urlencode

from .errors import ProtocolError, SandpoolError, from_answer
from .results import FileInfo, JobView, Listing, PortInfo
from .types import JSON, Mount, Sandbox, Snapshot

T = TypeVar("T")

SNAPSHOT_S = 600.0  # a large disk is copied
MARGIN_S = 10.0  # for the answer, beyond what the daemon was asked to wait
PAGE = 1000


@dataclass(frozen=True)
class Call(Generic[T]):
    method: str
    target: str
    decode: Callable[[Any], T]
    body: Optional[Mapping[str, Any]] = None
    timeout_s: Optional[float] = None  # None: the client's
    is_safe: bool = True  # sent twice it does what it does once


def _target(start: str, /, *parts: str, **query: object) -> str:
    text = start + "/".join(quote(part, safe=":") for part in parts)
    given = {key: value for key, value in query.items() if value is not None}
    return f"{text}?{urlencode(given)}" if given else text


def acquire(thread_id: Optional[str] = None, *, user_id: Optional[str] = None,
            profile: Optional[str] = None, sandbox_id: Optional[str] = None,
            wait_s: Optional[float] = None, ttl_s: Optional[int] = None,
            idle_timeout_s: Optional[int] = None, envs: Optional[Mapping[str, str]] = None,
            mounts: Optional[Iterable[Mount]] = None, limits: Optional[Mapping[str, Any]] = None,
            metadata: Optional[Mapping[str, Any]] = None, network: Optional[str] = None,
            labels: Optional[Mapping[str, str]] = None,
            snapshot_id: Optional[str] = None) -> Call[Sandbox]:
    body = {
        "thread_id": thread_id, "user_id": user_id, "profile": profile, "sandbox_id": sandbox_id,
        "wait_ms": None if wait_s is None else int(wait_s * 1000), "ttl_s": ttl_s,
        "idle_timeout_s": idle_timeout_s, "envs": envs, "limits": limits, "metadata": metadata,
        "network": network, "labels": labels,
        "mounts": None if mounts is None else [mount.to_json() for mount in mounts],
        "snapshot_id": snapshot_id,
    }
    # A thread gets the same box again; an anonymous caller would get a second one.
    return Call("POST", "/v1/acquire", Sandbox.from_json, body,
                None if wait_s is None else wait_s + MARGIN_S, bool(thread_id or sandbox_id))


def release(sandbox_id: str, generation: Optional[int], destroy: bool) -> Call[Sandbox]:
    return Call("POST", _target("/v1/sandboxes/", sandbox_id, "release"), Sandbox.from_json,
                {"generation": generation, "destroy": destroy})


def renew(sandbox_id: str, generation: Optional[int], ttl_s: Optional[int],
          timeout_s: Optional[float] = None) -> Call[Sandbox]:
    return Call("POST", _target("/v1/sandboxes/", sandbox_id, "renew"), Sandbox.from_json,
                {"generation": generation, "ttl_s": ttl_s}, timeout_s)


def stand_still(box_id: str, generation: Optional[int], is_paused: bool) -> Call[Sandbox]:
    return Call("POST", box_path(box_id, "pause" if is_paused else "resume"), Sandbox.from_json,
                {"generation": generation})


def get(sandbox_id: str, ask_backend: bool, stats: bool = False) -> Call[Sandbox]:
    return Call("GET", _target("/v1/sandboxes/", sandbox_id, alive=1 if ask_backend else None,
                               stats=1 if stats else None), Sandbox.from_json)


def destroy(sandbox_id: str, generation: Optional[int], quick: bool) -> Call[Sandbox]:
    return Call("DELETE", _target("/v1/sandboxes/", sandbox_id, generation=generation,
                                  quick=1 if quick else None), Sandbox.from_json)


def page(cursor: Optional[str], **filters: Optional[str]) -> Call[Tuple[List[Sandbox], Optional[str]]]:
    return Call("GET", _target("/v1/sandboxes", limit=PAGE, cursor=cursor, **filters), _page)


def _page(answer: Any) -> Tuple[List[Sandbox], Optional[str]]:
    if not isinstance(answer, dict) or not isinstance(answer.get("sandboxes"), list):
        raise ProtocolError("protocol", "a page of sandboxes must be an object with a list")
    return [Sandbox.from_json(entry) for entry in answer["sandboxes"]], answer.get("next_cursor")


def take_snapshot(box_id: str, name: Optional[str],
                  metadata: Optional[Mapping[str, Any]]) -> Call[Snapshot]:
    return Call("POST", box_path(box_id, "snapshots"), Snapshot.from_json,
                {"name": name, "metadata": metadata}, SNAPSHOT_S, is_safe=False)


def fork(box_id: str, count: Optional[int], threads: Optional[Sequence[str]], *,
         user_id: Optional[str], wait_s: Optional[float], ttl_s: Optional[int],
         idle_timeout_s: Optional[int], envs: Optional[Mapping[str, str]],
         metadata: Optional[Mapping[str, Any]]) -> Call[List[Union[Sandbox, SandpoolError]]]:
    body = {
        "count": count, "threads": None if threads is None else list(threads), "user_id": user_id,
        "wait_ms": None if wait_s is None else int(wait_s * 1000), "ttl_s": ttl_s,
        "idle_timeout_s": idle_timeout_s, "envs": envs, "metadata": metadata,
    }

    def one(entry: Any) -> Union[Sandbox, SandpoolError]:
        is_error = isinstance(entry, dict) and "error" in entry
        return from_answer(200, entry) if is_error else Sandbox.from_json(entry)

    def decode(answer: Any) -> List[Union[Sandbox, SandpoolError]]:
        return [one(entry) for entry in _list(answer, "sandboxes")]
    return Call("POST", box_path(box_id, "fork"), decode, body,
                SNAPSHOT_S + (wait_s or 0.0), is_safe=False)


def snapshots(after: Optional[str]) -> Call[Tuple[List[Snapshot], Optional[str]]]:
    def decode(answer: Any) -> Tuple[List[Snapshot], Optional[str]]:
        return [Snapshot.from_json(one) for one in _list(answer, "snapshots")], answer.get("next")
    return Call("GET", _target("/v1/snapshots", after=after), decode)


def snapshot(method: str, snapshot_id: str) -> Call[Snapshot]:
    return Call(method, _target("/v1/snapshots/", snapshot_id), Snapshot.from_json)


def snapshot_file(snapshot_id: str, format: Optional[str] = None) -> str:
    return _target("/v1/snapshots/", snapshot_id, "export", format=format)


def import_target(name: Optional[str], profile: Optional[str], any_base: bool) -> str:
    return _target("/v1/snapshots/import", name=name, profile=profile, any_base=1 if any_base else None)


def profiles() -> Call[List[JSON]]:
    return Call("GET", "/v1/profiles", lambda answer: _list(answer, "profiles"))


def profile(name: str) -> Call[JSON]:
    return Call("GET", _target("/v1/profiles/", name), _object)


def price(profile: Optional[str], duration_s: Optional[int]) -> Call[JSON]:
    return Call("GET", _target("/v1/quote", profile=profile, duration_s=duration_s), _object)


def usage(query: Mapping[str, object]) -> Call[JSON]:
    return Call("GET", _target("/v1/usage", **query), _object)


def budgets(cursor: Optional[str], limit: Optional[int]) -> Call[JSON]:
    return Call("GET", _target("/v1/budgets", cursor=cursor, limit=limit), _object)


def budget(method: str, user_id: str, *parts: str, body: Optional[JSON] = None) -> Call[JSON]:
    """A credit that was given twice would count twice."""
    return Call(method, _target("/v1/budgets/", user_id, *parts), _object, body, is_safe=method != "POST")


def plain(method: str, path: str, body: Optional[JSON] = None) -> Call[JSON]:
    return Call(method, path, _object, body)


def _object(answer: Any) -> JSON:
    if answer is not None and not isinstance(answer, dict):
        raise ProtocolError("protocol", "the answer must be an object")
    return answer or {}


# --- of one box ---

def box_path(box_id: str, /, *parts: str, **query: object) -> str:
    """`box:` names this very box: a replacement under the same sandbox_id is never used for it."""
    return _target("/v1/sandboxes/", f"box:{box_id}", *parts, **query)


def command_body(command: Union[str, Sequence[str]], **fields: Any) -> JSON:
    """A string is for the shell, a list is the program and its arguments."""
    body: JSON = {"command": command} if isinstance(command, str) else {"argv": list(command)}
    body.update((key, value) for key, value in fields.items() if value is not None)
    return body


def job(method: str, box_id: str, *parts: str, body: Optional[JSON] = None,
        timeout_s: Optional[float] = None, is_safe: bool = True) -> Call[JobView]:
    return Call(method, box_path(box_id, "jobs", *parts), JobView.from_json, body, timeout_s, is_safe)


def jobs(box_id: str) -> Call[List[JobView]]:
    def decode(answer: Any) -> List[JobView]:
        return [JobView.from_json(entry) for entry in _list(answer, "jobs")]
    return Call("GET", box_path(box_id, "jobs"), decode)


def entry(method: str, box_id: str, what: str, body: Optional[JSON] = None,
          **query: object) -> Call[FileInfo]:
    return Call(method, box_path(box_id, "files", what, **query), FileInfo.from_json, body)


def once(call: Call[T], timeout_s: float) -> Call[T]:
    """For what would do something else when it is sent twice."""
    return replace(call, is_safe=False, timeout_s=timeout_s)


def listing(box_id: str, /, **query: object) -> Call[Listing]:
    def decode(answer: Any) -> Listing:
        found = Listing(FileInfo.from_json(one) for one in _list(answer, "entries"))
        found.truncated = answer.get("truncated") is True
        return found
    return Call("GET", box_path(box_id, "files", "list", **query), decode)


def remove(box_id: str, /, **query: object) -> Call[JSON]:
    return Call("DELETE", box_path(box_id, "files", **query), _object)


def ports(box_id: str) -> Call[List[PortInfo]]:
    def decode(answer: Any) -> List[PortInfo]:
        return [PortInfo.from_json(one) for one in _list(answer, "ports")]
    return Call("GET", box_path(box_id, "ports"), decode)


def _list(answer: Any, key: str) -> List[Any]:
    found = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise ProtocolError("protocol", f"the answer must be an object with a list of {key}")
    return found
