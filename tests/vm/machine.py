"""A machine of its own: Debian with systemd in qemu, under software emulation. Commands reach it over a virtio port."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

BOOT_S = 900  # half a minute on a quiet machine
PORT = "sandpool.commands"


class Failed(AssertionError):
    """A command that should have worked."""


class Machine:
    def __init__(self, image, work):
        self.image = pathlib.Path(image)  # base.img, kernel, initrd: image.sh
        self.work = pathlib.Path(work)    # what this run changes, and the console
        self.qemu = None
        self.line = None
        self.text = b""
        self.number = 0

    def start(self, payload):
        """Boots from a fresh disk; `payload` is a tar file, in the machine /dev/vdb."""
        disk = self.work / "disk.qcow2"
        disk.unlink(missing_ok=True)
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", self.image / "base.img", "-F", "raw", disk],
                       check=True)
        path = self.work / "port"
        console = open(self.work / "console.log", "wb")
        self.qemu = subprocess.Popen(
            ["nice", "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "3072",
             "-display", "none", "-nodefaults", "-no-user-config",
             "-kernel", self.image / "kernel", "-initrd", self.image / "initrd",
             "-append", "root=/dev/vda rw console=ttyS0 quiet systemd.show_status=1",
             "-drive", f"file={disk},if=virtio,format=qcow2,cache=unsafe,discard=unmap",
             "-drive", f"file={payload},if=virtio,format=raw,readonly=on",
             "-serial", "stdio",
             "-device", "virtio-serial", "-chardev", f"socket,id=port,path={path},server=on,wait=off",
             "-device", f"virtserialport,chardev=port,name={PORT}",
             "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="],
            stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT)
        console.close()
        deadline = time.monotonic() + 30
        self.line = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self.line.connect(str(path))
                break
            except OSError:
                if time.monotonic() > deadline or self.qemu.poll() is not None:
                    raise Failed(f"qemu did not start: {(self.work / 'console.log').read_text()[-1000:]}")
                time.sleep(0.1)
        self.wait()

    def answer(self, number, limit):
        """To that request; those of earlier ones are left out. None: not in time."""
        deadline = time.monotonic() + limit
        while True:
            while b"\n" in self.text:
                line, self.text = self.text.split(b"\n", 1)
                try:
                    found = json.loads(line)
                except ValueError:
                    continue  # the machine went down in the middle of it
                if found["id"] == number:
                    return found
            self.line.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                piece = self.line.recv(65536)
            except TimeoutError:
                return None
            if not piece:
                raise Failed("the machine has ended")
            self.text += piece

    def ask(self, command, timeout, limit):
        self.number += 1
        request = {"id": self.number, "command": command, "timeout": timeout}
        self.line.settimeout(60)
        self.line.sendall(json.dumps(request).encode() + b"\n")
        return self.answer(self.number, limit)

    def wait(self):
        """Until it takes commands."""
        deadline = time.monotonic() + BOOT_S
        while time.monotonic() < deadline:
            if self.ask("true", 30, 3) is not None:
                return
        raise Failed(f"it did not come up: {(self.work / 'console.log').read_text(errors='replace')[-2000:]}")

    def run(self, command, timeout=120, check=True):
        """What it printed, as root; (status, output) without `check`."""
        found = self.ask(command, timeout, timeout + 60)
        if found is None:
            raise Failed(f"no answer to: {command}")
        if not check:
            return found["status"], found["output"]
        if found["status"] != 0:
            raise Failed(f"exit status {found['status']} of: {command}\n{found['output'][-3000:]}")
        return found["output"]

    def until(self, command, timeout=60):
        """Asks again until the command is content; its output."""
        deadline = time.monotonic() + timeout
        while True:
            status, output = self.run(command, check=False)
            if status == 0:
                return output
            if time.monotonic() > deadline:
                raise Failed(f"not within {timeout} s: {command}\n{output[-2000:]}")
            time.sleep(0.5)

    def reboot(self, command="systemctl reboot"):
        before = self.run("cat /proc/sys/kernel/random/boot_id")
        self.run(f"systemd-run --on-active=1 --timer-property=AccuracySec=100ms sh -c '{command}'")
        deadline = time.monotonic() + BOOT_S
        while time.monotonic() < deadline:
            found = self.ask("cat /proc/sys/kernel/random/boot_id", 30, 3)
            if found is not None and found["output"] != before:
                return
            time.sleep(1)
        raise Failed("it did not come up again")

    def stop(self):
        if self.line is not None:
            self.line.close()
        if self.qemu is not None:
            self.qemu.terminate()
            self.qemu.wait(30)
        for name in ("disk.qcow2", "port"):
            (self.work / name).unlink(missing_ok=True)


def make_payload(target, trees):
    """A tar file of {name: directory}; a name "." unpacks into place."""
    target = pathlib.Path(target)
    top = target.parent / "payload"
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir(parents=True)
    for name, directory in trees.items():
        shutil.copytree(directory, top / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["tar", "-C", top, "--owner=0", "--group=0", "-cf", target, "."], check=True)
    shutil.rmtree(top)
    os.truncate(target, (target.stat().st_size + 511) // 512 * 512)
