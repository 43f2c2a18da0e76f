"""A box for threads: every call is that of `sandpool.aio`, run to its end."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Type, Union

from .box import OUTPUT_MAX, TIMEOUT_S, AsyncBox
from .files import READ_MAX, WORKSPACE, AsyncFiles, Content, Path
from .forward import Forward
from .jobs import AsyncJob, Output
from .ports import FORWARD_MAX, AsyncPort, AsyncPorts, AsyncTunnel
from .results import Chunk, Ended, FileEvent, FileInfo, JobView, Listing, PortInfo, Response, Result
from .shell import SHELL, AsyncShell
from .terminal import interact
from .transport import BlockingStream, drive
from .types import Report, Sandbox, Snapshot

Command = Union[str, Sequence[str]]
Callback = Callable[[str], object]


class JobOutput(BlockingStream[Chunk]):
    def __init__(self, inner: Output) -> None:
        super().__init__(inner)
        self._output = inner

    @property
    def end(self) -> Optional[Ended]:
        """How the job ended; None before the last piece was read."""
        return self._output.end


class Job:
    """A program that runs in the box, whoever is connected. It outlives this object, the client and
    a restart of the daemon; it goes with the box."""

    def __init__(self, inner: AsyncJob) -> None:
        self._job = inner

    def __repr__(self) -> str:
        return repr(self._job).replace("Async", "", 1)

    @property
    def id(self) -> str:
        return self._job.id

    @property
    def pid(self) -> int:
        """In the box."""
        return self._job.pid

    @property
    def view(self) -> JobView:
        """What was last seen of it."""
        return self._job.view

    def poll(self) -> Optional[JobView]:
        """How it ended; None while it runs."""
        return drive(self._job.poll())

    def wait(self, timeout: Optional[float] = None) -> JobView:
        """How it ended. TimeoutError when it still runs after `timeout` seconds; 0 only looks."""
        return drive(self._job.wait(timeout))

    def kill(self) -> JobView:
        """Ends it with all it started: TERM, KILL after 2 s. Returns when it is dead; it may be
        dead already."""
        return drive(self._job.kill())

    def signal(self, name: str) -> None:
        """To its group: "INT", "TERM", "HUP", ..."""
        drive(self._job.signal(name))

    def send(self, data: Union[str, bytes], *, eof: bool = False) -> None:
        """Input, for one that was started with `stdin=True` or a terminal."""
        drive(self._job.send(data, eof=eof))

    def close_stdin(self) -> None:
        drive(self._job.close_stdin())

    def resize(self, cols: int, rows: int) -> None:
        """Of its terminal."""
        drive(self._job.resize(cols, rows))

    def output(self, offset: int = 0, stderr_offset: int = 0) -> JobOutput:
        """Both streams from these offsets, live until the job ends."""
        return JobOutput(self._job.output(offset, stderr_offset))

    def __iter__(self) -> JobOutput:
        return self.output()


class Shell(BlockingStream[Chunk]):
    """A terminal. Iterate over its output; one thread may do that while another sends."""

    def __init__(self, inner: AsyncShell) -> None:
        super().__init__(inner)
        self._shell = inner
        self.job = Job(inner.job)

    @property
    def end(self) -> Optional[Ended]:
        """How it ended; None before the last piece was read."""
        return self._shell.end

    def send(self, data: Union[str, bytes]) -> None:
        drive(self._shell.send(data))

    def close_stdin(self) -> None:
        drive(self._shell.close_stdin())

    def signal(self, name: str) -> None:
        drive(self._shell.signal(name))

    def resize(self, cols: int, rows: int) -> None:
        drive(self._shell.resize(cols, rows))

    def wait(self, timeout: Optional[float] = None) -> JobView:
        return drive(self._shell.wait(timeout))

    def interact(self) -> Optional[Ended]:
        """Connects it with the terminal of this program until it ends."""
        interact(self)
        return self.end

    def close(self, *, kill: Optional[bool] = None) -> None:
        """Ends the terminal and, unless `kill` is False, what runs in it."""
        drive(self._shell.close(kill=kill))

    def __enter__(self) -> "Shell":
        return self


class Files:
    """Files of one box. Paths are absolute, relative to /workspace, or begin with `~`. With
    `user="root"` a call acts as the box's root. A missing file is a FileNotFoundError."""

    def __init__(self, inner: AsyncFiles) -> None:
        self._files = inner

    def write(self, path: str, content: Content, *, mode: Optional[int] = None,
              owner: Optional[str] = None, parents: bool = True, user: Optional[str] = None) -> int:
        """Replaces the file at once when all has come; directories before it are made. `content`
        is text, bytes, an open file or an iterable of bytes. Returns the size."""
        return drive(self._files.write(path, content, mode=mode, owner=owner, parents=parents,
                                       user=user))

    def open(self, path: str, *, start: int = 0, end: Optional[int] = None,
             user: Optional[str] = None) -> BlockingStream[bytes]:
        """The bytes from `start` to before `end`, piece by piece."""
        return BlockingStream(drive(self._files.open(path, start=start, end=end, user=user)))

    def read(self, path: str, *, start: int = 0, end: Optional[int] = None,
             user: Optional[str] = None, max_bytes: Optional[int] = READ_MAX) -> bytes:
        """Raises when there are more than `max_bytes` (None: no limit), so that no box can fill our memory."""
        return drive(self._files.read(path, start=start, end=end, user=user, max_bytes=max_bytes))

    def read_text(self, path: str, *, encoding: str = "utf-8", user: Optional[str] = None,
                  max_bytes: Optional[int] = READ_MAX) -> str:
        return drive(self._files.read_text(path, encoding=encoding, user=user, max_bytes=max_bytes))

    def stat(self, path: str, *, follow: bool = False, user: Optional[str] = None) -> FileInfo:
        """Of a link, unless `follow`, the link itself."""
        return drive(self._files.stat(path, follow=follow, user=user))

    def exists(self, path: str, *, user: Optional[str] = None) -> bool:
        return drive(self._files.exists(path, user=user))

    def list(self, path: str = WORKSPACE, *, recursive: bool = False, depth: Optional[int] = None,
             limit: Optional[int] = None, user: Optional[str] = None) -> Listing:
        """`truncated` of the list: there are more than `limit` (10,000 unless given)."""
        return drive(self._files.list(path, recursive=recursive, depth=depth, limit=limit, user=user))

    def mkdir(self, path: str, *, parents: bool = True, mode: Optional[int] = None,
              user: Optional[str] = None) -> FileInfo:
        return drive(self._files.mkdir(path, parents=parents, mode=mode, user=user))

    def move(self, source: str, to: str, *, overwrite: bool = True,
             user: Optional[str] = None) -> FileInfo:
        return drive(self._files.move(source, to, overwrite=overwrite, user=user))

    def copy(self, source: str, to: str, *, overwrite: bool = True,
             user: Optional[str] = None) -> FileInfo:
        """A directory with all that is in it, too."""
        return drive(self._files.copy(source, to, overwrite=overwrite, user=user))

    def remove(self, path: str, *, recursive: bool = False, missing_ok: bool = False,
               user: Optional[str] = None) -> None:
        drive(self._files.remove(path, recursive=recursive, missing_ok=missing_ok, user=user))

    def upload(self, local: Path, path: str, *, mode: Optional[int] = None,
               owner: Optional[str] = None, user: Optional[str] = None) -> int:
        """A file of this machine; its mode is kept unless another is given."""
        return drive(self._files.upload(local, path, mode=mode, owner=owner, user=user))

    def download(self, path: str, local: Path, *, user: Optional[str] = None) -> int:
        """To a file of this machine, which appears when it is whole. Returns its size."""
        return drive(self._files.download(path, local, user=user))

    def upload_tree(self, local: Path, path: str, *, user: Optional[str] = None) -> None:
        """What is in a directory of this machine into one of the box, which is made if missing."""
        drive(self._files.upload_tree(local, path, user=user))

    def download_tree(self, path: str, local: Path, *, user: Optional[str] = None) -> None:
        """What is in a directory of the box into one of this machine, which is made if missing.
        Nothing of it may lead out of there. Nothing is written before all has come."""
        drive(self._files.download_tree(path, local, user=user))

    def watch(self, path: str = WORKSPACE, *, recursive: bool = False,
              user: Optional[str] = None) -> BlockingStream[FileEvent]:
        """Changes below a directory, or of a file, from now on."""
        return BlockingStream(drive(self._files.watch(path, recursive=recursive, user=user)))


class Tunnel:
    """Bytes to and from a port of the box."""

    def __init__(self, inner: AsyncTunnel) -> None:
        self._tunnel = inner

    def send(self, data: bytes) -> None:
        drive(self._tunnel.send(data))

    def recv(self) -> bytes:
        """b"" is the end."""
        return drive(self._tunnel.recv())

    def shut(self) -> None:
        """Nothing more will be sent."""
        self._tunnel.shut()

    def close(self) -> None:
        self._tunnel.close()


class Port:
    """One port of the box's own loopback. The box may have no network otherwise."""

    def __init__(self, ports: "Ports", inner: AsyncPort) -> None:
        self._ports = ports
        self._port = inner
        self.number = inner.number

    @property
    def url(self) -> str:
        """For any HTTP client that sends `headers`. Over TCP: where the daemon serves it. Over a
        Unix socket: a port of this machine, as by forward(), until the box is released; everybody
        on this machine can use it."""
        return self._port.daemon_url or self._ports.kept(self).url

    @property
    def headers(self) -> Dict[str, str]:
        """What a request to `url` must carry; the server in the box does not see it."""
        return self._port.headers

    def request(self, method: str = "GET", path: str = "/", *, body: Union[str, bytes, None] = None,
                headers: Optional[Mapping[str, str]] = None,
                timeout_s: Optional[float] = None) -> Response:
        """One HTTP request to the server in the box. Its answer is returned whatever its status."""
        return drive(self._port.request(method, path, body=body, headers=headers,
                                        timeout_s=timeout_s))

    def connect(self) -> Tunnel:
        """A connection of bytes. `port_closed` is raised when nobody listens."""
        return Tunnel(drive(self._port.connect()))

    def forward(self, local_port: int = 0, *, host: str = "127.0.0.1",
                limit: int = FORWARD_MAX) -> Forward:
        """A port of this machine that leads to the box's, until it is closed. Everybody who can
        reach it can use it. At most `limit` connections at a time; others wait."""
        return Forward(lambda: drive(self._port.connect()), host, local_port, limit)


class Ports:
    def __init__(self, inner: AsyncPorts) -> None:
        self._ports = inner
        self._lock = threading.Lock()
        self._kept: Dict[int, Forward] = {}

    def __getitem__(self, number: int) -> Port:
        return Port(self, self._ports[number])

    def __iter__(self) -> Iterator[PortInfo]:
        return iter(self.list())

    def list(self) -> List[PortInfo]:
        """What listens in the box."""
        return drive(self._ports.list())

    def kept(self, port: Port) -> Forward:
        """A port of this machine that leads to the box's, until close()."""
        with self._lock:
            if port.number not in self._kept:
                self._kept[port.number] = port.forward()
            return self._kept[port.number]

    def close(self) -> None:
        """Ends what `url` of a port has opened."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for forward in kept.values():
            forward.close()


class Box:
    """A box of one thread. As a context manager it is released at the end."""

    def __init__(self, inner: AsyncBox) -> None:
        self._box = inner
        self.files = Files(inner.files)
        self.ports = Ports(inner.ports)

    def __repr__(self) -> str:
        return repr(self._box).replace("Async", "", 1)

    def __enter__(self) -> "Box":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.ports.close()
        drive(self._box.__aexit__(kind, error, trace))

    @property
    def sandbox(self) -> Sandbox:
        return self._box.sandbox

    @property
    def sandbox_id(self) -> str:
        return self._box.sandbox_id

    @property
    def sandbox_url(self) -> str:
        """Where the box itself answers (docs/agent.md), for those who send `headers`."""
        return self._box.sandbox_url

    @property
    def headers(self) -> Dict[str, str]:
        """What a request to `sandbox_url` must carry."""
        return self._box.headers

    def release(self, *, destroy: bool = False) -> Optional[Report]:
        """Gives it back: kept for its thread, or destroyed, which returns when it is gone."""
        self.ports.close()
        return drive(self._box.release(destroy=destroy))

    def destroy(self) -> Optional[Report]:
        """Returns when it is gone, with what was released; None: it was gone already."""
        self.ports.close()
        return drive(self._box.destroy())

    def renew(self, ttl_s: Optional[int] = None) -> Sandbox:
        """Pushes the end of the lease to `ttl_s` from now. Done by itself while it is held."""
        return drive(self._box.renew(ttl_s))

    def pause(self) -> Sandbox:
        """Its processes stand still and use no CPU, until resume() or the next call that needs it. The lease goes on."""
        return drive(self._box.pause())

    def resume(self) -> Sandbox:
        """Lets it go on."""
        return drive(self._box.resume())

    def snapshot(self, name: Optional[str] = None, *,
                 metadata: Optional[Mapping[str, Any]] = None) -> Snapshot:
        """Keeps its files as they are now. It stands still for a moment and goes on."""
        return drive(self._box.snapshot(name, metadata=metadata))

    def fork(self, count: Optional[int] = None, *, threads: Optional[Sequence[str]] = None,
             user_id: Optional[str] = None, wait_s: Optional[float] = None,
             ttl_s: Optional[int] = None, idle_timeout_s: Optional[int] = None,
             envs: Optional[Mapping[str, str]] = None,
             metadata: Optional[Mapping[str, Any]] = None, auto_renew: bool = True) -> "List[Box]":
        """`count` new boxes with the files of this one, or one for each of `threads`. All or none:
        when one cannot be made, the others are destroyed and its error is raised."""
        return [Box(inner) for inner in drive(self._box.fork(
            count, threads=threads, user_id=user_id, wait_s=wait_s, ttl_s=ttl_s,
            idle_timeout_s=idle_timeout_s, envs=envs, metadata=metadata, auto_renew=auto_renew))]

    def run(self, command: Command, *, cwd: Optional[str] = None,
            env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
            stdin: Union[str, bytes, None] = None, timeout_s: Optional[float] = TIMEOUT_S,
            max_output: int = OUTPUT_MAX, on_stdout: Optional[Callback] = None,
            on_stderr: Optional[Callback] = None, tag: Optional[str] = None) -> Result:
        """Runs a command to its end: a string for the shell, or a list without one. `on_stdout` and
        `on_stderr` get each line as it is written, without its end. The result has the first and
        the last half of `max_output` bytes of each stream. After `timeout_s` (None: never) the
        command is killed with all it started, and the result has what it wrote until then.

        A box that is lost is a result with that outcome; a daemon that is restarted is waited for.
        What raises: the daemon refuses or cannot be reached before the command was started, or a
        callback raises (then the command is killed)."""
        return drive(self._box.run(
            command, cwd=cwd, env=env, user=user, stdin=stdin, timeout_s=timeout_s,
            max_output=max_output, on_stdout=on_stdout, on_stderr=on_stderr, tag=tag))

    def start(self, command: Command, *, cwd: Optional[str] = None,
              env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
              stdin: bool = False, timeout_s: Optional[float] = None,
              pty: Optional[Mapping[str, int]] = None, tag: Optional[str] = None) -> Job:
        """Starts a job and returns at once. `stdin=True` keeps an input open for send();
        `pty={"cols": 80, "rows": 24}` gives it a terminal."""
        return Job(drive(self._box.start(command, cwd=cwd, env=env, user=user, stdin=stdin,
                                         timeout_s=timeout_s, pty=pty, tag=tag)))

    def job(self, job_id: str) -> Job:
        """One that runs already, or has ended."""
        return Job(drive(self._box.job(job_id)))

    def jobs(self) -> List[Job]:
        return [Job(job) for job in drive(self._box.jobs())]

    def shell(self, command: Command = SHELL, *, cols: int = 80, rows: int = 24,
              cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
              user: Optional[str] = None) -> Shell:
        """A terminal in the box with a shell, or with another command."""
        return Shell(drive(self._box.shell(command, cols=cols, rows=rows, cwd=cwd, env=env,
                                           user=user)))

    def attach(self, job_id: str, *, offset: int = 0, stderr_offset: int = 0) -> Shell:
        """Output, input and signals of a job on one connection. Closing it leaves the job alone."""
        return Shell(drive(self._box.attach(job_id, offset=offset, stderr_offset=stderr_offset)))
