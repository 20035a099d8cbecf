"""Made-up toolkits in the forms that Debian and NVIDIA publish them, and a server for them."""

import hashlib
import io
import json
import lzma
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from gpuforge.toolkits.toolkit import Archives

ELF = b"\x7fELF"


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder; byte ranges too, unless the server says not to; names beginning with `broken` break off."""

    def log_message(self, *_: object) -> None:
        """Be quiet."""

    def do_GET(self) -> None:
        """Answer one request."""
        self.server.requests.append(self.path)  # type: ignore[attr-defined]
        file = Path(self.translate_path(self.path))
        wanted = self.headers["Range"]
        if not file.is_file() or (wanted is None and not file.name.startswith("broken")):
            super().do_GET()
            return
        data = file.read_bytes()
        if file.name.startswith("broken"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(data) + 10))
        elif self.server.ranges:  # type: ignore[attr-defined]
            first, last = (int(number) for number in wanted.removeprefix("bytes=").split("-"))
            data = data[first : last + 1]
            self.send_response(206)
            self.send_header("Content-Length", str(len(data)))
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    """A server on this machine that remembers what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[str] = []
        self.ranges = True
        super().__init__(("127.0.0.1", 0), partial(Handler, directory=str(folder)))

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Serve a folder while the block runs."""
    with Server(folder) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tar_xz(files: Mapping[str, bytes | str]) -> bytes:
    """Pack files (bytes) and links (str)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=0) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size, member.mode = len(content), 0o755 if content.startswith(ELF) else 0o644
                archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def deb(files: Mapping[str, bytes | str], *, data: bytes | None = None, name: str = "data.tar.xz") -> bytes:
    """Pack files as a Debian package."""
    members = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", name: data or tar_xz(files)}
    packed = b"!<arch>\n"
    for member, content in members.items():
        packed += f"{member:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        packed += content + b"\n" * (len(content) % 2)
    return packed


def xz_block(content: bytes) -> bytes:
    """Return the one block of an .xz file: what is between its header and its index."""
    whole = lzma.compress(content, check=lzma.CHECK_CRC64)
    backward = (int.from_bytes(whole[-8:-4], "little") + 1) * 4
    return whole[12 : -12 - backward]


COMPONENTS: dict[str, tuple[str, dict[str, bytes | str]]] = {
    "cuda_nvcc": (
        "12.4.131",
        {"bin/nvcc": ELF, "bin/nvcc.profile": b"TOP", "nvvm/bin/cicc": ELF, "LICENSE": b"l"},
    ),
    "cuda_cudart": (
        "12.4.127",
        {
            "include/cuda.h": b"//",
            "lib/libcudart.so.12.4.127": ELF,
            "lib/libcudart.so.12": "libcudart.so.12.4.127",
            "lib/stubs/libcuda.so": ELF,
            "LICENSE": b"l",
        },
    ),
    "cuda_cccl": ("12.4.127", {"include/cub/cub.cuh": b"//"}),
    "cuda_cuobjdump": ("12.4.127", {"bin/cuobjdump": ELF}),
    "libcufft": ("11.2.1.3", {"lib/libcufft.so.11": ELF}),
}


def publish(folder: Path) -> dict[str, dict[str, object]]:
    """Write CUDA 12.4.1 to `folder` as NVIDIA publishes it; return its list, for changes that `relist` writes."""
    entries: dict[str, dict[str, object]] = {}
    for name, (version, files) in COMPONENTS.items():
        stem = f"{name}-linux-x86_64-{version}-archive"
        path = f"{name}/linux-x86_64/{stem}.tar.xz"
        data = tar_xz({f"{stem}/{file}": content for file, content in files.items()})
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(data)
        row = {"relative_path": path, "sha256": sha256(data), "md5": "", "size": str(len(data))}
        entries[name] = {"name": name, "license": "CUDA Toolkit", "version": version, "linux-x86_64": row}
    relist(folder, entries)
    return entries


def relist(folder: Path, entries: object) -> None:
    (folder / "redistrib_12.4.1.json").write_text(json.dumps(entries))


PROJECTS = {"cuda_cudart": "nvidia-cuda-runtime-cu12", "libcufft": "nvidia-cufft-cu12"}


def wanted(url: str) -> Archives:
    needed = ("cuda_cccl", "cuda_cudart", "cuda_cuobjdump", "cuda_nvcc", "libcufft")
    return Archives("12.4.1", "12.4.131", "linux-x86_64", needed, ("libnvjitlink",), url, PROJECTS)
