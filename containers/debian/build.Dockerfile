# A Debian release with compilers and Pythons in manylinux's layout: what compiles and packages wheels.
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
COPY apt /etc/apt
ARG PYTHON
ARG PACKAGES
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates "python${PYTHON}-dev" "python${PYTHON}-venv" ${PACKAGES} \
 && apt-get clean && rm -rf /var/lib/apt/lists/* /etc/apt/sources.list.d/also.list
COPY --from=cpython /opt/python /opt/python
COPY layout.sh manylinux-interpreters /tmp/gpuforge/
COPY wheels /tmp/gpuforge/wheels
RUN sh /tmp/gpuforge/layout.sh build "${PYTHON}" && rm -rf /tmp/gpuforge
