/* plan.h - what the daemon asks of sandpool-helper: one JSON object on standard input, one JSON object
 * on standard output, the sentence behind a failure on standard error with exit status 1.
 * Descriptor 3 of `run` is the box's listening socket. The plans are made by src/backends/oci/plan.c, and by
 * mount.c, gather.c and relay.c of src/backends/docker.
 *
 * sandpool-helper ends when its parent does (PR_SET_PDEATHSIG), and so does the runtime it started:
 * `run` undoes what it has done so far (so does SIGTERM), the others stop where they are.
 *
 * An ordinary user may run, remove and base in a user namespace made here. Then id_base is 0 and
 * id_count 1 or 65536 (with newuidmap and a range in /etc/subuid), disk is 0, and the spec has no
 * user namespace and no cgroup of its own. What is missing is said. `mount` needs root.
 *
 * run: makes a box and starts it.
 *   {"dir": "/…/boxes/<id>",       made here, mode 0700. If it exists and its lock is free it is a
 *                                  leftover and is removed first; if it is locked: exit status 3
 *    "record": "…",                text of box.json
 *    "spec": "…",                  text of config.json; its root.path is <stage>/rootfs
 *    "stage": "/mnt",              an existing directory, covered by a tmpfs in our own mount
 *                                  namespace only
 *    "lower": "/…",                read-only base of the overlay
 *    "map_lower": true,            show its owners shifted by id_base (an idmapped mount), where
 *                                  the kernel can
 *    "layers": [{"disk": "/…/snapshots/<id>/disk", "id_base": 1610612736}, …] or absent,  snapshots
 *                                  between "lower" and what the box writes, the last one first; "id_base"
 *                                  is that of the box that each was taken from
 *    "id_base": 1610612736, "id_count": 65536,
 *    "disk": 2147483648,           size of the box's own file system on a loop device; 0: a plain
 *                                  directory without a limit
 *    "disk_template": "/…",        a file to copy it from, made on first use; "" with disk 0
 *    "durable": true or absent,    what the box writes outlives the machine: a journal, barriers, no `volatile`; the
 *                                  directory is on the disk when this ends. Needs "disk"
 *    "owned": [{"path": "/workspace", "id": 1000, "mode": 493}, …]  directories of the box
 *    "files": [{"path": "/etc/hosts", "text": "…"}]                 small files of the box
 *    "binds": [{"from": "/usr", "to": "/usr", "ro": true}, …]       of the daemon's own choice
 *    "mounts": [{"from": "/srv/data/x", "to": "/data", "ro": true}, …]  of a profile's choice:
 *                                  checked against "allow"; without what is mounted below; what
 *                                  root owns (user or group) only with "ro"
 *                                  With "base": "/srv/data" (the daemon's own choice, "from" is below it)
 *                                  what is missing below "base" is made and "allow" does not count, nor may
 *                                  a link be on the way; "parts": "a,b" are directories in it, made too
 *                                  With "holder": "1000" the base has to be below "allow", and "from" is noted as
 *                                  the holder's (an attribute of the directory): other holders get exit status 5.
 *                                  "": nothing is noted
 *                                  With "closed": ["/srv/data/threads", …] nothing that is in one, or has one in it,
 *                                  is mounted, by whatever name; but what is in "own", below one, is
 *    "allow": ["/srv/data", …],
 *    "user_id": 1000,              in the box: stands for the owner of each of "mounts"
 *    "runtime": ["/usr/bin/runc", "--root", …, "run", …, "<id>"],
 *                                  Its descriptor 3 is the box's end of the channel of a relay: a
 *                                  process outside the box that has the listening socket and the lock,
 *                                  as user id_base, and ends with the box (relay.h)
 *    "network": ["/usr/bin/slirp4netns", …] or absent,  started beside the box, with "{pid}" in an
 *                                  argument replaced by the pid of its init; it stays in the
 *                                  foreground; its pid and start time are kept in the file net.pid
 *    "egress": "example.com,*.example.org,192.0.2.0/24" or absent,  what it may reach, as in base/egress.h. "network" is
 *                                  started in a namespace between the box and it then, with a resolver (egress.h)
 *    "nft": "/usr/sbin/nft",       with "egress": the program that sets rules of nftables
 *    "connect": "/.sandpool/run/agent.sock" or absent,  for a runtime that hands no descriptors into
 *                                  the box: a Unix socket on which the agent listens, in a directory
 *                                  of its own (a small tmpfs that the box's root owns). The runtime
 *                                  gets no channel then: a second process outside has it and connects
 *                                  to that socket (connector.h). "pid" of the answer, and of the file
 *                                  of that name, is the relay's. The runtime is started in a user
 *                                  namespace in which 65534 is the last id of the box's range
 *    "guard": "/mnt/guard.sock" or absent,  the listenerPath of the spec, below "stage": the box's
 *                                  requests for sockets come there, and `sandpool-helper guard` outside the
 *                                  box answers them, as user id_base
 *    "sockets": 2048 or absent,    how many the box may have, Unix sockets not counted; absent: only
 *                                  netlink sockets are asked for
 *    "user_ns": "/mnt/user_ns" or absent,  where the spec finds the box's user namespace, below "stage": it
 *                                  is made here, as user id_base
 *    "max_files": 65536 or absent,  open files of a process (RLIMIT_NOFILE) and no core files, for a spec
 *                                  that does not set them
 *    "limits": [{"file": "memory.max", "value": "536870912"}, …] or absent,  for a runtime that makes
 *                                  no cgroup: we make "cgroup", with these, and the runtime is
 *                                  started in it
 *    "delete", "cgroup", "runtime_state"}  as in `remove`: a leftover of the same id, and what a run
 *                                  that failed has made, are removed with them
 *   -> {"pid": 4711, "unmapped": 0}  the box's agent has said that it is ready. "unmapped" of
 *                                  "mounts" are on file systems that cannot show other owners: the
 *                                  box sees theirs as nobody's
 *
 * mount: attaches directories of the host to a running box. Nothing of it stays on the host.
 *   {"dir": …, "pid": …, "id_base": …, "id_count": …, "user_id": 1000, "mounts": […], "allow": […]}
 *   or {"container": "<64 hex digits>", "pid": …, "program": "/.sandpool/agent" or absent, "mounts": […],
 *    "allow": […]}                 a mount without "from" is a directory, made in the box for its user (in a
 *                                  box without our agent for everybody), where nothing is in the way.
 *                                  The second form is for a container of Docker or Podman: "pid" must be its first
 *                                  process, in a control group with its id in the name, and run
 *                                  "program". Owners become the user that process runs as; what root
 *                                  owns stays root's
 *   -> {"mounted": 2, "unmapped": 0}  one that is there already, the same way, is fine; another thing
 *                                  at the same place: exit status 4
 *
 * egress: what a running box may reach is changed. Connections to what is not allowed any more end, and those to what
 * names have led to: a program asks again.
 *   {"dir": …, "egress": …, "nft": …}  as in `run`, for a box that was made with one
 *   -> {}                          it is so, for all that is new
 *
 * disk: what a container that has just been started writes to some of its directories is limited.
 *   {"container": …, "pid": …, "program": …,  as in `mount`
 *    "dir": "/…",                  a directory for the file behind it, which has no name
 *    "disk": 2147483648, "disk_template": "/…",  as in `run`
 *    "places": ["/workspace", "/tmp"]}  in the box, at most 8; those that it does not have are left out. The home
 *                                  of the user its first process runs as is added
 *   -> {"places": 3}
 *
 * remove: ends whatever runs and leaves nothing. Any part may be missing.
 *   {"dir": …, "delete": ["/usr/bin/runc", "--root", …, "delete", "--force", "<id>"],
 *    "cgroup": "/sandpool-<instance>/<id>", "runtime_state": "/…/run-runc/<id>"}
 *   -> {"was_running": true, "processes": 3 or null, "mounts": 24 or null, "layers": 1, "cgroups": 9, "files": 120, "bytes": 40960}
 *
 * capture: copies the disk of a running box, which stands still meanwhile.
 *   {"dir": …, "to": "/…/snapshots/new-<id>/disk", "stage": "/mnt", "cgroup": …}
 *   -> {"size": 40960, "digest": "sha256:…", "frozen_ms": 12}  "to" is on the disk of the host. After a
 *                                  failure it is removed and the box goes on, unless somebody has killed
 *                                  us: then `freeze` with "frozen": false is needed
 *
 * keep: gives the disk of a durable box that has ended a second name, as a snapshot. What is left of the box is ended.
 *   {"dir": …, "to": "/…/snapshots/new-<id>/disk", "stage": "/mnt", "delete", "cgroup", "runtime_state"}
 *   -> {"size": 40960}             "to" is whole and on the disk of the host. `remove` takes the first name away
 *
 * flatten: makes the layers of a snapshot one.
 *   {"layers": [{"disk": …, "id_base": …}, …], "to": "/…/snapshots/<id>/flat", "stage": "/mnt", "id_base": …,
 *    "reserve": 536870912}         as in `run`; "id_base" is for the new layer. That much has to stay free
 *   -> {"size": 40960}             "to" is on the disk of the host, and mounted below the same base shows what
 *                                  the layers show. After a failure it is removed
 *
 * pack: writes a snapshot to descriptor 3, as a file of base/bundle.h.
 *   {"layers": […], "stage": "/mnt", as in `flatten`; "lower": "/…" or absent, the base that boxes of it have now;
 *    "about": "{…}"}               JSON text for the head of the file
 *   -> {}                          all of it is written
 *
 * image: writes a snapshot to descriptor 3, as a container image (image_out.h) that has all its boxes are built on.
 *   {"layers": […], "stage": "/mnt", as in `flatten`; "lower": "/…", the base that boxes of it have now;
 *    "host": ["/usr"],             directories of this machine that they see besides, or absent; what not everybody may
 *                                  read stays out, and nobody gets rights by modes and attributes of files there
 *    "config": "{…}",              JSON text: what programs in it are started with
 *    "name": "localhost/sandpool-image:<id>", "created": "2026-01-01T00:00:00Z",
 *    "max_bytes": 68719476736}     of all layers together; holes in files count
 *   -> {}                          all of it is written. Exit status 11: it is too large
 *
 * unpack: makes a disk from such a file, read from descriptor 3 to its end.
 *   {"to": "/…/snapshots/new-<id>/disk", "stage": "/mnt", "id_base": …, "reserve": …, as in `flatten`
 *    "lower": "/…" or absent,      the base that boxes of it will have: it has to be the one that the file names,
 *    "any_base": true,             unless this is given
 *    "max_bytes": 17179869184}     the largest disk there may be
 *   -> {"size": 40960, "digest": "sha256:…"}  as from `capture`. After a failure "to" is removed; exit status 9: the
 *                                  file is not good; 10: it is for another base; 11: it is too large
 *
 * repack: what an engine saves of an image becomes ours. Descriptor 3 is a Unix socket: first the descriptor comes that the
 * result is written to, then the engine's archive to its end.
 *   {"name": …, "created": …, "max_bytes": …,  as in `image`
 *    "about": "{…}" or absent,     as in `pack`, for a file of base/bundle.h; without it a container image is written
 *    "dir": "/…",                  for a file that has no name, as large as the image
 *    "reserve": 536870912}         so much stays free there
 *   -> {}
 *
 * load: such a file of base/bundle.h becomes an archive that an engine loads. Descriptor 3 is a Unix socket: first the descriptor
 * comes that the file is read from, then the archive goes back.
 *   {"name": …, "created": …, "max_bytes": …,
 *    "labels": "{…}"}              JSON text: all labels that the image has
 *   -> {"image": "sha256:…"}       what the engine will call it. Exit status 9 and 11: as from `unpack`; the engine has got an
 *                                  archive without an image then
 *
 * gather: puts the files of a container of Docker or Podman together.
 *   {"from": ["/…/diff", …],       layers of overlayfs in the engine's storage, the uppermost first, at most 16
 *    "to": "/…/diff",              the uppermost layer of a container that does not run
 *    "reserve": 536870912,         so much stays free there when the engine has made an image of it, which has no holes
 *    "container": …, "pid": …, "program": …}  as in `disk`, or absent: what was written to its limited directories
 *                                  comes, too. It has to stand still
 *   -> {"size": 40960}             of the image. "to" shows what "from" shows, above the layers that are in neither.
 *                                  Exit status 11: files have too many holes
 *
 * freeze: lets all processes of a box stand still, or go on.
 *   {"cgroup": …, "frozen": true}
 *   -> {}                          it is so
 *
 * reclaim: gives memory of a box that stands still back to the machine.
 *   {"cgroup": …} or {"container": …, "pid": …} as in `disk`
 *   -> {"before": 77828096, "after": 24068096}  bytes; it took ten seconds at most
 *
 * relay: starts the relay of a box that somebody else makes. Descriptor 3 is a Unix socket: the box's
 * listening socket comes from there, and the box's end of the channel goes back.
 *   {"dir": "/…", "id": 1610612737, "cgroup": "/sandpool-<instance>/relays" or absent}
 *                                  "dir" only shows whose it is; "id" is its user on this machine,
 *                                  0: ours; "cgroup" is made for it, where that may be
 *   -> {"pid": 4711}               it serves
 *
 * base: makes the base of `rootfs: host`.
 *   {"dir": "/…/oci/base", "user": "user", "user_id": 1000}
 *   -> {"digest": "…", "extra_binds": ["/lib", …]}  the base is <dir>/<digest>; unchanged input,
 *                                  unchanged digest. "extra_binds": directories outside /usr that
 *                                  programs need too; none where /bin, /lib … are symlinks */
#ifndef HELPER_PLAN_H
#define HELPER_PLAN_H

#include "base/err.h"

/* run: in the directory of the box, a Unix socket that leads where descriptor 3 does, for those who may enter the
 * directory. A small message by TCP takes three times as much processor time, even on one machine. */
#define HELPER_LOCAL_SOCKET "relay"
/* run with "egress": where the box asks for names. */
#define HELPER_RESOLVER "192.0.0.1"

enum {
    HELPER_EXIT_FAILED = 1,
    HELPER_EXIT_USAGE = 2,
    HELPER_EXIT_RUNNING = 3, /* run: the box exists and runs */
    HELPER_EXIT_TAKEN = 4,   /* mount: something else is mounted there */
    HELPER_EXIT_REFUSED = 5, /* mount, run: a source is not below "allow" */
    HELPER_EXIT_INVALID = 6, /* mount, run: a path is not there, or is of another kind */
    HELPER_EXIT_UNABLE = 7,  /* not here, or not with this box */
    HELPER_EXIT_KILLED = 8,  /* run: somebody has killed the runtime */
    HELPER_EXIT_DAMAGED = 9, /* unpack: the file is not good */
    HELPER_EXIT_BASE = 10,   /* unpack: it is for another base */
    HELPER_EXIT_LARGE = 11,  /* unpack, image: it is too large */
    HELPER_EXIT_UNFIT = 12,  /* run: a runtime would hang on what the root has in it */
};

/* The result of a `mount`, `pack`, `image` or `unpack` that ended with this status. */
static inline int helper_code(int exit_code)
{
    switch (exit_code) {
    case HELPER_EXIT_TAKEN:
        return ERR_TAKEN;
    case HELPER_EXIT_REFUSED:
        return SP_FORBIDDEN;
    case HELPER_EXIT_INVALID:
        return SP_INVALID_FIELD;
    case HELPER_EXIT_UNABLE:
        return SP_UNSUPPORTED;
    case HELPER_EXIT_DAMAGED:
        return SP_INVALID_FIELD;
    case HELPER_EXIT_BASE:
        return SP_SPEC_CONFLICT;
    case HELPER_EXIT_LARGE:
        return SP_BODY_TOO_LARGE;
    default:
        return SP_BACKEND_FAILED;
    }
}

#endif
