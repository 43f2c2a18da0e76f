"""What can be seen of boxes and daemons on this machine: their processes, files, sockets and mounts."""

import os
import pathlib
import shutil
import time

GROUPS = pathlib.Path("/sys/fs/cgroup")


def processes():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def read_of(pid, what):
    try:
        return pathlib.Path(f"/proc/{pid}/{what}").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def copy_program(source, target):
    """With a time that no other copy has: a box shows its agent by a file system of its own, so device and inode do
    not show whose it is."""
    path = pathlib.Path(shutil.copy(source, target))
    now = time.time_ns()
    os.utime(path, ns=(now, now))


def mark_of(program):
    info = os.stat(program)
    return info.st_size, info.st_mtime_ns


def runs_one_of(pid, marks):
    try:
        return mark_of(f"/proc/{pid}/exe") in marks
    except OSError:
        return False


def descriptors(pid):
    """What a process has open."""
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            pass  # closed meanwhile
    return found


def own_sockets():
    """Sockets of the network namespace we are in, as descriptors of them are shown."""
    found = set()
    for name, column in (("tcp", 9), ("tcp6", 9), ("udp", 9), ("udp6", 9), ("raw", 9), ("unix", 6), ("netlink", 9),
                         ("packet", 8)):
        path = pathlib.Path(f"/proc/net/{name}")
        for line in path.read_text().splitlines()[1:] if path.exists() else []:
            found.add(f"socket:[{line.split()[column]}]")
    return found


def inside_of(init):
    """The processes of the box that has this first one."""
    space = os.readlink(f"/proc/{init}/ns/pid")
    found = []
    for pid in processes():
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") == space:
                found.append(pid)
        except OSError:
            pass
    return found


def mount_points():
    return {line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()}


def has_loop_devices():
    return os.access("/dev/loop-control", os.R_OK | os.W_OK)


# --- control groups ---

def hierarchies():
    if (GROUPS / "cgroup.controllers").exists():
        return [GROUPS]
    return [p for p in GROUPS.iterdir() if p.is_dir() and not p.is_symlink()]


def group_of(instance, box_id, controller):
    """The directory of a box's control group."""
    top = GROUPS if (GROUPS / "cgroup.controllers").exists() else GROUPS / controller
    return top / f"sandpool-{instance}" / box_id


def memory_of(group):
    """What is charged to this control group of the controller `memory`."""
    file = group / "memory.current"
    return int((file if file.exists() else group / "memory.usage_in_bytes").read_text())


def can_reclaim():
    return (GROUPS / "memory.reclaim").exists() or (GROUPS / "memory/memory.force_empty").exists()


def is_frozen(instance, box_id):
    """Whether the processes of a box stand still."""
    group = group_of(instance, box_id, "freezer")
    if (group / "cgroup.freeze").exists():
        return "frozen 1" in (group / "cgroup.events").read_text()
    return (group / "freezer.state").read_text().strip() == "FROZEN"
