# A Debian release with Pythons and no compiler, no OpenMP runtime, no CUDA: what someone who installs a wheel has.
ARG BASE
ARG CPYTHON
# hadolint ignore=DL3006
FROM ${CPYTHON} AS cpython

# hadolint ignore=DL3006
FROM ${BASE}
ARG IMAGE
LABEL dev.gpuforge.image=${IMAGE}
ENV LANG=C.UTF-8
COPY lean.cfg /etc/dpkg/dpkg.cfg.d/lean
ARG PYTHON
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates "python${PYTHON}-venv" \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=cpython /opt/python /opt/python
COPY layout.sh /tmp/gpuforge/
COPY wheels /tmp/gpuforge/wheels
RUN sh /tmp/gpuforge/layout.sh test "${PYTHON}" && rm -rf /tmp/gpuforge
