"""The containers of an engine, through the docker SDK; those that a killed gpuforge left behind are removed."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import docker
from docker.errors import DockerException, ImageNotFound, NotFound
from docker.types import DeviceRequest
from docker.types.daemon import CancellableStream

from gpuforge import digest
from gpuforge.containers.engine import connect, engine_errors
from gpuforge.errors import MissingError

OWNER = "gpuforge.owner"
MACHINE = "gpuforge.machine"
SECONDS = "gpuforge.seconds"
ACTION = "gpuforge.action"
MOMENT_S = 3600.0  # seconds, far more than an action without its own limit takes
_LATE_S = 900.0  # seconds that an owner may take to remove a container after its limit
_FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of linux/proc_ns.h: not inside a container


class Ran(NamedTuple):
    """A command that ended in a container: its exit status and its output to stdout and to stderr."""

    status: int
    output: str
    errors: str = ""

    @property
    def reason(self) -> str:
        """The last line of a command that failed, or its exit status."""
        return (self.errors or self.output).strip().rpartition("\n")[2] or f"exit status {self.status}"


class Mount(NamedTuple):
    """A file or folder of this machine (`source`) and its path in a container (`target`)."""

    source: Path
    target: Path
    writable: bool = False


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container to make. By default it has no network, and never more rights than a normal user.

    `image` is an id or a reference, `image_name` its name for people. The user is the image's own or, with `as_caller`,
    the user of gpuforge. `network` is this machine's. `memory` is in bytes, `pids` counts processes and threads.
    """

    image: str
    argv: Sequence[str]
    labels: Mapping[str, str]
    image_name: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None
    mounts: Sequence[Mount] = ()
    as_caller: bool = False
    network: bool = False
    gpus: bool = False
    keeps_output: bool = False  # for `Container.read` after its end
    memory: int | None = None
    cpus: float | None = None
    pids: int | None = None
    entered: Literal["", "pipe", "terminal"] = ""  # what its input is connected with, if anything


class ContainerEnd(NamedTuple):
    """The end of a container; `status` is that of a process: negative for the signal that ended it."""

    status: int
    out_of_memory: bool = False


class LabelledContainer(NamedTuple):
    """A container of the engine, of any process; `age` in seconds since it was made."""

    id: str
    labels: Mapping[str, str]
    age: float


class Containers:
    """`Containers` of the engine that DOCKER_HOST names, or of the engine of a client."""

    def __init__(self, client: docker.DockerClient | None = None) -> None:
        self._client = client or connect()

    def create(self, spec: ContainerSpec) -> Container:
        """Make a container; raises MissingError if its image is gone."""
        name = spec.image_name or spec.image
        try:
            with engine_errors(f"to make a container of image {name}"):
                return Container(self._client.containers.create(spec.image, **self._options(spec)))
        except Exception as error:
            if isinstance(error.__cause__, ImageNotFound):
                raise MissingError.of(
                    f"image {name} is no longer there", hint=f"run gpuforge images build {name}, then again"
                ) from error
            raise

    def enter(self, spec: ContainerSpec) -> int:
        """Run a container on the caller's terminal, if it is one, and remove it; return its exit status.

        Docker's own program connects the two, which the SDK cannot.
        """
        program = next(filter(None, map(shutil.which, ("docker", "podman"))), None)
        if program is None:
            raise MissingError.of(
                "a shell in a container needs the program docker or podman, which is not on PATH",
                hint="install the engine's command-line program",
            )
        is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        container = self.create(replace(spec, entered="terminal" if is_terminal else "pipe"))
        command = [program, "start", "--attach", "--interactive", container.id]
        try:
            return subprocess.run(command, check=False).returncode
        finally:
            container.remove()

    def labelled(self, label: str) -> list[LabelledContainer]:
        """Return the containers with a label, ended or not."""
        with engine_errors("to list its containers"):
            now = _time(self._client.info().get("SystemTime"))  # the clock of their creation times
            # From the list: looking at a single one never returns if the engine cannot end it at the moment.
            found = self._client.api.containers(all=True, filters={"label": label})
            return [
                LabelledContainer(each["Id"], each.get("Labels") or {}, now - float(each["Created"]))
                for each in found
            ]

    def signal(self, container: str, name: str) -> None:
        """Send a signal to a container; it is not an error if it has ended or is gone."""
        with suppress(DockerException, OSError):
            self._client.containers.get(container).kill(signal=name)

    def remove(self, container: str) -> bool:
        """Remove a container; return False if it was gone already, or another process removes it now."""
        try:
            self._client.api.remove_container(container, force=True, v=True)
        except (DockerException, OSError):
            return False
        return True

    def limits_memory(self) -> bool:
        """Return whether a container's memory can be limited: an engine without root needs cgroup v2."""
        info = self._info()
        # Podman reports it even if it cannot (podman-run(1): not on cgroup v1 without root).
        return bool(info.get("MemoryLimit", True)) and not (
            info.get("Rootless") and info.get("CgroupVersion") == "1"
        )

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _info(self) -> Mapping[str, Any]:
        with engine_errors("to describe itself"):
            info: Mapping[str, Any] = self._client.info()
        return info

    def _options(self, spec: ContainerSpec) -> dict[str, Any]:
        """Return the arguments of the SDK's `containers.create`."""
        return {
            "entrypoint": list(spec.argv[:1]),
            "command": list(spec.argv[1:]),
            "environment": dict(spec.env),
            "working_dir": spec.folder,
            "labels": dict(spec.labels),
            "mounts": _as_engine_mounts(spec.mounts),
            "mem_limit": spec.memory,
            "nano_cpus": self._nano_cpus(spec.cpus),
            "pids_limit": spec.pids,
            "network_mode": "host" if spec.network else "none",
            "tty": spec.entered == "terminal",
            "stdin_open": bool(spec.entered),
            "init": True,  # it passes signals on, and reaps orphaned processes
            "log_config": {"type": "json-file" if spec.keeps_output else "none"},
            "cap_drop": ["ALL"],
            # Mounted files have this machine's SELinux labels, which a container's own label could not read.
            "security_opt": ["no-new-privileges", "label=disable"],
            **(caller(self._info()) if spec.as_caller else {}),
            # as `docker run --gpus all`
            **({"device_requests": [DeviceRequest(count=-1, capabilities=[["gpu"]])]} if spec.gpus else {}),
        }

    def _nano_cpus(self, cpus: float | None) -> int | None:
        """Return the limit for a container's processor time; None for no limit, also if the engine would refuse one.

        An engine without root has the controller for it only if the system delegates it, which few do.
        """
        if not cpus:
            return None
        info = self._info()
        return int(min(cpus, info["NCPU"]) * 1e9) if info.get("CpuCfsQuota", True) else None


class Container:
    """`Container` of a Docker engine."""

    def __init__(self, container: Any) -> None:
        self._container = container

    @property
    def id(self) -> str:
        """Its id."""
        return str(self._container.id)

    def attach(self) -> CancellableStream[bytes]:
        """Return its output as it comes."""
        with engine_errors("to follow a container"):
            output: CancellableStream[bytes] = self._container.attach(stdout=True, stderr=True, stream=True)
        return output

    def start(self) -> None:
        """Start its command."""
        with engine_errors("to start a container"):
            self._container.start()

    def wait(self) -> ContainerEnd:
        """Wait for its end. A container that was removed counts as ended by SIGKILL."""
        with engine_errors("to follow a container"):
            try:
                status = int(self._container.wait()["StatusCode"])
                self._container.reload()
            except NotFound:
                return ContainerEnd(-signal.SIGKILL)
        is_signal = 128 < status <= 128 + signal.SIGRTMAX
        killed = bool(self._container.attrs["State"].get("OOMKilled"))
        return ContainerEnd(128 - status if is_signal else status, killed)

    def read(self) -> Ran:
        """Wait for its end and return all its output."""
        ended = self.wait()
        with engine_errors("to read the output of a container"):
            output, errors = (
                bytes(self._container.logs(stdout=not err, stderr=err)).decode(errors="replace")
                for err in (False, True)
            )
        return Ran(ended.status, output, errors)

    def remove(self) -> None:
        """Remove it, ended or not; it is not an error if it is gone already."""
        with suppress(DockerException, OSError):
            self._container.remove(force=True, v=True)


def run_once(containers: Containers, spec: ContainerSpec) -> Ran:
    """Run a container to its end, and remove it, also if it could not be started."""
    container = containers.create(spec)
    try:
        container.start()
        return container.read()
    finally:
        container.remove()


def caller(info: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that make the caller a container's user, who can write the caller's files.

    If the engine itself runs without root, its containers' root is the caller.
    """
    security = " ".join(info.get("SecurityOptions") or [])
    if "name=rootless" in security or info.get("Rootless"):  # Docker's name for it, and Podman's
        return {"user": "0:0"}
    user = {"user": f"{os.geteuid()}:{os.getegid()}"}
    return user | ({"userns_mode": "host"} if "name=userns" in security else {})


def gpus() -> int:
    """Return the number of this machine's GPUs for containers: NVIDIA's driver makes a file for each."""
    return len([*Path("/dev").glob("nvidia[0-9]*")])


def _as_engine_mounts(mounts: Sequence[Mount]) -> list[dict[str, Any]]:
    """Return mounts in the form of the engine's API, outer folders first."""
    return [
        {
            "Type": "bind",
            "Source": str(mount.source.absolute()),
            "Target": str(mount.target),
            "ReadOnly": not mount.writable,
        }
        for mount in sorted(mounts, key=lambda m: len(m.target.parts))
    ]


def _time(text: object) -> float:
    """Return a time of the engine (RFC 3339) in seconds since 1970; now if it has none."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return datetime.now(UTC).timestamp()


def labels(action: str = "", seconds: float = MOMENT_S) -> dict[str, str]:
    """Return the labels of a container of this process, which it lets run for at most `seconds`."""
    return {
        OWNER: f"{_namespace()} {os.getpid()} {_started(os.getpid())}",
        MACHINE: _machine(),
        SECONDS: str(math.ceil(seconds)),
        ACTION: action,
    }


def clear_leftovers(containers: Containers) -> int:
    """Remove the containers of gpuforge processes that have ended; return how many."""
    left = [each for each in containers.labelled(OWNER) if is_left(each.labels, each.age)]
    return sum(containers.remove(each.id) for each in left)


def is_left(found: Mapping[str, str], age: float) -> bool:
    """Return whether a container with these labels, made `age` seconds ago, is left over: its process has ended.

    A process is identified by its number, its start and its PID namespace, which excludes a new process with the same
    number and a gpuforge in another container. It has ended if its machine was restarted since. A process in another
    container, or on another machine of the same engine, is not visible: its container is left over after its time
    limit.
    """
    namespace, pid, started = [*found[OWNER].split(), "", "", ""][:3]
    if namespace == _namespace():
        return pid.isdigit() and _started(int(pid)) != started
    machine, limit = found.get(MACHINE, ""), found.get(SECONDS, "")
    boot, known, _ = namespace.partition(":")
    if known and machine and machine == _machine() and boot != _boot():
        return True
    return limit.isdigit() and age > int(limit) + _LATE_S


def _namespace() -> str:
    """Return an identifier of this boot and PID namespace, within which process numbers are unique."""
    try:
        return f"{_boot()}:{Path('/proc/self/ns/pid').readlink()}".replace(" ", "")
    except OSError:
        return "unknown"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _machine() -> str:
    """Return an identifier of the machine that survives a restart; "" in a container, which may share it."""
    try:
        if str(Path("/proc/self/ns/pid").readlink()) != _FIRST_NAMESPACE:
            return ""
        known = Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""
    # machine-id(5): it must not be published unhashed; copies of one virtual machine at least differ by name.
    return digest.of_data(["gpuforge", known, os.uname().nodename])[:32] if known else ""


def _started(pid: int) -> str:
    """Return the start of a process in ticks since boot (proc(5), field 22); "" if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
