#!/usr/bin/env bash
# image.sh DIRECTORY MIRROR: the disk of the machine that walk.py boots, with its kernel, made once: Debian of this
# release with systemd, an OCI runtime and what the tests of boxes need. Nothing of ours is on it but the service that
# takes commands (guest.py).
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
dir=$(readlink -m "$1") mirror=$2
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")

packages=(systemd systemd-sysv udev kmod dbus dbus-user-session libpam-systemd initramfs-tools linux-image-cloud-amd64
    libuv1 libcurl4 libsqlite3-0 libyaml-0-2 libncursesw6 runc crun e2fsprogs python3 ca-certificates slirp4netns passt nftables uidmap
    iproute2 procps curl busybox-static openssl)

# What the disk depends on: another text here, another disk.
stamp=$(cat "$0" "$here/guest.py" | sha256sum | cut -c 1-16)-$codename

# One at a time, and whole or not at all: another run may wait for it, or this one may be stopped half-way.
mkdir -p "$(dirname "$dir")"
exec 9>"$dir.lock"
flock 9
[ "$(cat "$dir/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
final=$dir dir=$dir.new
rm -rf "$dir"
mkdir "$dir"
trap 'rm -rf "$dir"' EXIT
mmdebstrap --quiet --variant=minbase --aptopt='APT::Install-Recommends "false"' \
    --include="$(IFS=,; echo "${packages[*]}")" "$codename" "$dir/root.tar" "$mirror"
mkdir "$dir/root"
tar -C "$dir/root" --numeric-owner --exclude='./dev/*' -xf "$dir/root.tar"
rm "$dir/root.tar"
cp "$dir"/root/boot/vmlinuz-* "$dir/kernel"
cp "$dir"/root/boot/initrd.img-* "$dir/initrd"

cd "$dir/root"
rm -rf var/cache/apt/* var/lib/apt/lists/*
: >etc/machine-id # the first boot makes one
echo machine >etc/hostname
echo '127.0.0.1 localhost machine' >etc/hosts
echo '/dev/vda / ext4 rw,discard 0 1' >etc/fstab
install -m 755 "$here/guest.py" usr/local/sbin/guest
mkdir -p etc/systemd/network etc/systemd/journald.conf.d etc/systemd/system/multi-user.target.wants var/log/journal
printf '[Match]\nName=e*\n[Network]\nDHCP=ipv4\n' >etc/systemd/network/all.network
printf '[Journal]\nStorage=persistent\nRateLimitBurst=0\n' >etc/systemd/journald.conf.d/keep.conf
cat >etc/systemd/system/guest.service <<'END'
[Unit]
Description=Runs what the host asks for
After=multi-user.target

[Service]
ExecStart=/usr/local/sbin/guest
KillMode=process

[Install]
WantedBy=multi-user.target
END
ln -s ../guest.service etc/systemd/system/multi-user.target.wants/guest.service
ln -s /lib/systemd/system/systemd-networkd.service etc/systemd/system/multi-user.target.wants/
useradd --root "$PWD" --create-home --shell /bin/bash alice # with ranges in /etc/subuid, for boxes without root
cd ..

truncate -s 6G base.img
mke2fs -q -t ext4 -d root base.img
echo "$stamp" >stamp
rm -rf root "$final"
mv "$dir" "$final"
