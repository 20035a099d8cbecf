"""sccache's own back ends across the network, for builds without a network: by OpenDAL, as in sccache itself.

The variables are sccache's (https://github.com/mozilla/sccache/blob/main/docs/Configuration.md), the options OpenDAL's
(https://opendal.apache.org/docs/services). This is the one module that imports it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NoReturn

from gpuforge.diagnostics import shown
from gpuforge.errors import MissingError
from gpuforge.execute.objects.secrets import hidden

_ANSWER = 20.0  # seconds; sccache gives up after 60
_TRIES = 2


@dataclass(frozen=True, slots=True)
class _Service:
    """OpenDAL's name of a service, its options by the variables that hold them, and the variable of the prefix."""

    name: str
    options: Mapping[str, str]
    prefix: str
    fixed: Mapping[str, str] = field(default_factory=dict)


_REDIS = {
    "username": "SCCACHE_REDIS_USERNAME",
    "password": "SCCACHE_REDIS_PASSWORD",
    "db": "SCCACHE_REDIS_DB",
    "endpoint": "SCCACHE_REDIS_ENDPOINT",
    "cluster_endpoints": "SCCACHE_REDIS_CLUSTER_ENDPOINTS",
}
_SERVICES = {
    "SCCACHE_BUCKET": _Service(
        "s3",
        {
            "bucket": "SCCACHE_BUCKET",
            "region": "SCCACHE_REGION",
            "endpoint": "SCCACHE_ENDPOINT",
            "enable_virtual_host_style": "SCCACHE_S3_ENABLE_VIRTUAL_HOST_STYLE",
            "allow_anonymous": "SCCACHE_S3_NO_CREDENTIALS",
        },
        "SCCACHE_S3_KEY_PREFIX",
    ),
    "SCCACHE_GCS_BUCKET": _Service(
        "gcs",
        {
            "bucket": "SCCACHE_GCS_BUCKET",
            "credential_path": "SCCACHE_GCS_KEY_PATH",
            "service_account": "SCCACHE_GCS_SERVICE_ACCOUNT",
        },
        "SCCACHE_GCS_KEY_PREFIX",
    ),
    "SCCACHE_WEBDAV_ENDPOINT": _Service(
        "webdav",
        {
            "endpoint": "SCCACHE_WEBDAV_ENDPOINT",
            "username": "SCCACHE_WEBDAV_USERNAME",
            "password": "SCCACHE_WEBDAV_PASSWORD",
            "token": "SCCACHE_WEBDAV_TOKEN",
        },
        "SCCACHE_WEBDAV_KEY_PREFIX",
    ),
    "SCCACHE_REDIS_ENDPOINT": _Service("redis", _REDIS, "SCCACHE_REDIS_KEY_PREFIX", {"db": "0"}),
    "SCCACHE_REDIS_CLUSTER_ENDPOINTS": _Service("redis", _REDIS, "SCCACHE_REDIS_KEY_PREFIX", {"db": "0"}),
    "SCCACHE_MEMCACHED_ENDPOINT": _Service(
        "memcached",
        {
            "endpoint": "SCCACHE_MEMCACHED_ENDPOINT",
            "username": "SCCACHE_MEMCACHED_USERNAME",
            "password": "SCCACHE_MEMCACHED_PASSWORD",
        },
        "SCCACHE_MEMCACHED_KEY_PREFIX",
    ),
}


class BackEnd:
    """A back end that sccache's variables set up; `name` is the variable that turns it on, or a configuration file.

    Raises MissingError if OpenDAL is not installed or containers cannot use this back end. All methods raise it when
    the back end fails.
    """

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        self._name, self._environ = name, environ
        service = _SERVICES.get(name)
        if service is None:
            kinds = ", ".join(_SERVICES)
            raise MissingError.of(
                f"containers cannot use the back end of sccache that {name} sets up",
                hint=f"set one of {kinds}, or a shared store",
            )
        if find_spec("opendal") is None:
            raise MissingError.of(
                f"containers need the Python package opendal for {name}, which is not installed",
                hint="pip install opendal, or gpuforge with its extra sccache",
            )
        import opendal  # noqa: PLC0415 - an extra
        from opendal.layers import RetryLayer, TimeoutLayer  # noqa: PLC0415

        self._absent = opendal.exceptions.NotFound
        try:
            system = opendal.Operator(service.name, **_options(service, environ))
            limit = TimeoutLayer(timeout=_ANSWER, io_timeout=_ANSWER)
            self._system: Any = system.layer(limit).layer(RetryLayer(max_times=_TRIES))
        except Exception as error:  # noqa: BLE001 - OpenDAL's kinds have no common one
            self._fail("connect", error)

    def read(self, name: str, most: int) -> bytes | None:
        """Return an object's bytes, or None if it is not there or is larger than `most`."""
        try:
            found = bytes(self._system.read(name))
        except self._absent:
            return None
        except Exception as error:  # noqa: BLE001
            self._fail("read", error)
        return found if len(found) <= most else None

    def put(self, name: str, data: bytes) -> None:
        """Write an object, in place of one that is there."""
        try:
            self._system.write(name, data)
        except Exception as error:  # noqa: BLE001
            self._fail("write", error)

    def _fail(self, act: str, error: Exception) -> NoReturn:
        cause = hidden(str(error).strip().partition("\n")[0], {**os.environ, **self._environ})
        message = f"the back end that {self._name} sets up fails: cannot {act}: {shown(cause)}"
        raise MissingError.of(message, hint="check its address, the credentials and the network") from None


def _options(service: _Service, environ: Mapping[str, str]) -> dict[str, str]:
    """Return OpenDAL's options."""
    own = {option: environ[name] for option, name in service.options.items() if environ.get(name)}
    if service.name == "s3":
        endpoint = own.get("endpoint", "")
        own |= {"region": own.get("region", "us-east-1")} if endpoint else {}
        if endpoint and "://" not in endpoint:
            own["endpoint"] = (
                f"{'https' if _is_on(environ.get('SCCACHE_S3_USE_SSL')) else 'http'}://{endpoint}"
            )
    root = environ.get(service.prefix, "").strip("/")
    return {**service.fixed, **own, "root": f"/{root}"}


def _is_on(value: str | None) -> bool:
    return (value or "").lower() in {"1", "true", "on"}
