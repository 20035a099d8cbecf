"""The jobs of a matrix for GitHub and GitLab, with the same fields and values except for the runner's label."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

# https://docs.github.com/actions/reference/runners/github-hosted-runners
# https://docs.gitlab.com/ci/runners/hosted_runners/linux
RUNNERS = {
    "github": {"x86_64": "ubuntu-24.04", "aarch64": "ubuntu-24.04-arm"},
    "gitlab": {"x86_64": "saas-linux-medium-amd64", "aarch64": "saas-linux-medium-arm64"},
}
# https://docs.github.com/actions/reference/limits and https://docs.gitlab.com/ci/yaml/#parallelmatrix
MOST_JOBS = {"github": 256, "gitlab": 200}
# The job's own container requests others from the engine of a service. They see only the project's folder:
# https://docs.gitlab.com/ci/docker/using_docker_build/#docker-in-docker-with-tls-enabled-in-the-docker-executor
_GITLAB = """\
.gpuforge:
  tags: [$RUNNER]
  image: docker.io/library/python:3.12-bookworm
  services: ["docker.io/library/docker:dind"]
  variables:
    GPUFORGE: .  # what pip installs gpuforge from: a folder, or git+https://…
    DOCKER_HOST: tcp://docker:2376
    DOCKER_TLS_CERTDIR: /certs
    DOCKER_TLS_VERIFY: "1"
    DOCKER_CERT_PATH: /certs/client
    GPUFORGE_CACHE_DIR: $CI_PROJECT_DIR/.gpuforge/cache
    GPUFORGE_WORK: $CI_PROJECT_DIR/.gpuforge/work
  before_script:
    - apt-get update && apt-get install -y --no-install-recommends debootstrap debian-archive-keyring
    - python -m venv .gpuforge/venv
    - export PATH="$CI_PROJECT_DIR/.gpuforge/venv/bin:$PATH"
    - pip install "$GPUFORGE"
  script:
    - eval "$PREPARE"
    - eval "$BUILD"
  artifacts: {paths: [dist]}
  parallel:
    matrix:"""


def labelled(job: Mapping[str, Any], system: str) -> dict[str, Any]:
    """Return a job with the runner's label in a CI system ("github", "gitlab")."""
    label = {"runner": RUNNERS[system].get(job["machine"], "self-hosted")}
    return {name: {**job, **label}[name] for name in ("cell", "runner", *job)}


def github(jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return `{"include": […]}` on one line, for `$GITHUB_OUTPUT` and `fromJSON`."""
    return json.dumps({"include": [labelled(job, "github") for job in jobs]}, separators=(",", ":"))


def gitlab(jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return a hidden GitLab job with `parallel: matrix`, to include and extend; its variables are strings."""
    lines = _GITLAB.splitlines()
    for entry in jobs:
        pairs = [
            f"{name.upper()}: {json.dumps(_text(value))}" for name, value in labelled(entry, "gitlab").items()
        ]
        lines += [f"      - {pairs[0]}", *(f"        {pair}" for pair in pairs[1:])]
    if not jobs:
        lines[-1] += " []"
    return "\n".join(lines)


def _text(value: str | Sequence[str] | Mapping[str, str] | None) -> str:
    """Return a value as a variable: lists and the pairs of tables are separated by spaces, None is empty."""
    if isinstance(value, Mapping):
        value = [f"{name}={each}" for name, each in value.items()]
    return value if isinstance(value, str) else " ".join(value or ())
